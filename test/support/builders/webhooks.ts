import type { WebhookDeps } from '../../../activities/control/webhooks/deps.ts'
import {
  createWebhookActivities,
  type WebhookActivities,
} from '../../../activities/control/webhooks/index.ts'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicSender } from '../../../platform/egress/public-sender.ts'
import { createLogger } from '../../../platform/log.ts'
import { workflowBundle } from '../../../workers/bundle.ts'
import { ensureSchedules } from '../../../workers/schedules.ts'
import { QUEUES } from '../../../workflows/contract/policy.ts'
import { startApi, type TestApi } from '../servers/api.ts'
import { type Receiver, startReceiver } from '../servers/receiver.ts'
import { runWorker, startTemporal, type TestTemporal } from '../servers/temporal.ts'

/** A request that a webhook endpoint received. */
export interface WebhookRequest {
  headers: Record<string, string | string[] | undefined>
  body: string
  event: { id: string; type: string; data: { verification_challenge?: string; resource: { id: string } } }
  at: number
}

/** A webhook endpoint that answers challenges; `answer` decides the response to other events. */
export interface TestDestination extends AsyncDisposable {
  readonly receiver: Receiver
  readonly received: WebhookRequest[]
  /** The status for the next events, or a function of the event. */
  answer: number | ((received: WebhookRequest) => { status: number; headers?: Record<string, string> })
}

export async function startDestination(
  options?: Parameters<typeof startReceiver>[1],
): Promise<TestDestination> {
  const received: WebhookRequest[] = []
  const destination = { received, answer: 204 as TestDestination['answer'] }
  const receiver = await startReceiver((req, res, body) => {
    const one: WebhookRequest = {
      headers: req.headers,
      body: body.toString(),
      event: JSON.parse(body.toString()),
      at: Date.now(),
    }
    const challenge = one.event.data.verification_challenge
    if (challenge !== undefined) {
      res.setHeader('service-verification-challenge', challenge)
      res.end(JSON.stringify({ verification_challenge: challenge }))
      return
    }
    received.push(one)
    const { answer } = destination
    const { status, headers = {} } = typeof answer === 'function' ? answer(one) : { status: answer }
    res.writeHead(status, headers).end()
  }, options)
  return Object.assign(destination, {
    receiver,
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  })
}

/** A gateway with webhooks enabled, a Temporal server, and a worker on the `webhooks` queue. */
export interface WebhookPlatform extends AsyncDisposable {
  readonly api: TestApi
  readonly temporal: TestTemporal
  readonly deps: WebhookDeps
}

/** Names ending in `.test` resolve to loopback here, and only `ports` may be reached. */
export async function startWebhookPlatform(
  ports: readonly number[],
  wrap: (activities: WebhookActivities) => object = (activities) => activities,
): Promise<WebhookPlatform> {
  await using stack = new AsyncDisposableStack()
  const allow = ports.map((port) => `127.0.0.0/8:${port}`)
  const temporal = stack.use(await startTemporal())
  const api = stack.use(
    await startApi({
      config: {
        TEMPORAL_ADDRESS: temporal.address,
        HEARTH_FEATURES: ['webhooks'],
        HEARTH_EGRESS_ALLOW: allow,
      },
    }),
  )
  const { config, db, secretBox } = api.services
  const sender = stack.use(
    new PublicSender(new EgressPolicy({ allow, block: [] }), async () => ['127.0.0.1'], {
      // A third of the default, so that tests of hanging endpoints end sooner.
      exchangeMs: 5_000,
    }),
  )
  const log = createLogger('test', config.HEARTH_LOG_LEVEL)
  const deps: WebhookDeps = { config, db, secretBox, sender, log, now: () => new Date() }
  stack.use(await startWebhookWorker(temporal, deps, wrap))
  await ensureSchedules(temporal.client, log, { hasWebhooks: true })
  const opened = stack.move()
  return { api, temporal, deps, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

/** Runs the webhook workflows and activities in this process until disposed. */
export async function startWebhookWorker(
  { connection }: TestTemporal,
  deps: WebhookDeps,
  wrap: (activities: WebhookActivities) => object = (activities) => activities,
): Promise<AsyncDisposable> {
  return runWorker({
    connection,
    taskQueue: QUEUES.webhooks,
    workflowBundle: await workflowBundle(deps.config.HEARTH_CACHE_DIR),
    activities: wrap(createWebhookActivities(deps)),
  })
}
