import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { MockActivityEnvironment } from '@temporalio/testing'
import { createWebhookActivities } from '../../../activities/control/webhooks/index.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { until } from '../../support/assertions/until.ts'
import { startWebhookPlatform, type WebhookPlatform } from '../../support/builders/webhooks.ts'
import { type Receiver, startReceiver } from '../../support/servers/receiver.ts'

type Reply = (res: ServerResponse, challenge: string) => void

const rightly: Reply = (res, challenge) => {
  res.setHeader('service-verification-challenge', challenge)
  res.end(JSON.stringify({ verification_challenge: challenge }))
}
const HEADER = 'service-verification-challenge'
const ENDPOINTS = '/api/builder/v1/webhook-endpoints'

describe('webhookVerification', () => {
  let receiver: Receiver
  let platform: WebhookPlatform
  let key: string
  let reply: Reply = rightly
  const challenges: string[] = []
  before(async () => {
    receiver = await startReceiver((_req, res, body) => {
      const { data } = JSON.parse(body.toString()) as { data: { verification_challenge: string } }
      challenges.push(data.verification_challenge)
      reply(res, data.verification_challenge)
    })
    platform = await startWebhookPlatform([receiver.port])
  })
  after(async () => {
    await platform?.[Symbol.asyncDispose]()
    await receiver?.[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    reply = rightly
    challenges.length = 0
    ;({ key } = await platform.api.account())
  })

  const create = async () => {
    const { body } = await platform.api.call('POST', ENDPOINTS, {
      key,
      body: { name: 'n', url: receiver.url('/in'), event_types: ['training.run.failed'] },
    })
    return String(body.endpoint_id)
  }
  const read = (id: string) => platform.api.call('GET', `${ENDPOINTS}/${id}`, { key })
  const patch = async (id: string, body: object) => {
    const { headers } = await read(id)
    return platform.api.call('PATCH', `${ENDPOINTS}/${id}`, {
      key,
      body,
      headers: { 'if-match': String(headers['etag']) },
    })
  }
  const verified = (id: string) => until(async () => (await read(id)).body.verification_status === 'active')
  const activities = () => createWebhookActivities(platform.deps)

  it('activates a destination that returns its challenge, and sets a new ETag', async () => {
    const id = await create()
    const before = (await read(id)).headers['etag']

    await verified(id)

    assert.notEqual((await read(id)).headers['etag'], before)
    const handle = platform.temporal.client.workflow.getHandle(WORKFLOW_ID.verification(id, 1))
    assert.equal(await handle.result(), 'verified')
    const history = JSON.stringify(await handle.fetchHistory())
    for (const secret of ['whsec_', 'receiver.test', ...challenges]) assert.ok(!history.includes(secret))
    await recordHistory('webhook-verification-verified', handle)
  })

  for (const [what, code, wrongly] of [
    [
      'without the header',
      'challenge_header_missing',
      (res, challenge) => res.end(JSON.stringify({ verification_challenge: challenge })),
    ],
    [
      'with a different header',
      'challenge_header_wrong',
      (res, challenge) => {
        res.setHeader(HEADER, 'other')
        res.end(JSON.stringify({ verification_challenge: challenge }))
      },
    ],
    [
      'with an empty body',
      'challenge_body_wrong',
      (res, challenge) => res.setHeader(HEADER, challenge).end(),
    ],
    [
      'with spaces in the body',
      'challenge_body_wrong',
      (res, challenge) =>
        res.setHeader(HEADER, challenge).end(JSON.stringify({ verification_challenge: challenge }, null, 1)),
    ],
    [
      'with a different status',
      'http_4xx',
      (res, challenge) => {
        res.statusCode = 400
        rightly(res, challenge)
      },
    ],
    [
      'that is a redirect',
      'redirect_rejected',
      (res, challenge) => {
        res.statusCode = 307
        res.setHeader('location', receiver.url('/other'))
        rightly(res, challenge)
      },
    ],
  ] as [string, string, Reply][]) {
    it(`rejects an answer ${what}, and notifies the owner`, async () => {
      reply = wrongly
      const id = await create()
      await until(async () => challenges.length > 0)

      assert.equal(await activities().challengeWebhook(id, 1, 2), 'unanswered')
      const { body } = await read(id)
      assert.equal(body.verification_status, 'pending_verification')
      assert.equal(body.verification_error.error_code, code)
      assert.match(
        body.verification_error.message,
        /^The destination is not verified: .*challenge is retried after/,
      )
      await activities().failWebhookVerification(id, 1)
      assert.match((await read(id)).body.verification_error.message, /no more retries; PATCH its url/)
      assert.equal(new Set(challenges).size, 1, 'every attempt must send the same challenge')
    })
  }

  it('sends a changed URL another challenge, and ends the earlier one', async () => {
    reply = (res) => res.end()
    const id = await create()
    await until(async () => challenges.length > 0)

    reply = rightly
    await patch(id, { url: receiver.url('/moved') })
    await verified(id)

    assert.equal(new Set(challenges).size, 2)
    assert.equal(await activities().challengeWebhook(id, 1, 3), 'ended')
    await patch(id, { enabled: false })
    await patch(id, { enabled: true })
    await until(async () => new Set(challenges).size === 3)
    await verified(id)
  })

  it('disables an endpoint that answers its challenge with 410, and stops challenging it', async () => {
    reply = (res) => res.writeHead(410).end()
    const id = await create()

    await until(async () => !(await read(id)).body.enabled)

    assert.match((await read(id)).body.disabled_reason, /410/)
    const handle = platform.temporal.client.workflow.getHandle(WORKFLOW_ID.verification(id, 1))
    assert.equal(await handle.result(), 'ended')
    assert.equal(challenges.length, 1)
    reply = rightly
    await patch(id, { enabled: true })
    await verified(id)
  })

  it('rejects answers after its window, and reports failure', async () => {
    reply = (res) => res.end()
    const id = await create()
    await until(async () => challenges.length > 0)
    const { db } = platform.deps
    const status = async () =>
      (
        await db
          .selectFrom('webhook_verification')
          .select('status')
          .where('endpoint_id', '=', id)
          .executeTakeFirstOrThrow()
      ).status
    await db
      .updateTable('webhook_verification')
      .set({ window_ends_at: new Date(Date.now() - 1_000) })
      .where('endpoint_id', '=', id)
      .execute()

    reply = rightly
    assert.equal(await activities().challengeWebhook(id, 1, 2), 'ended')
    await new MockActivityEnvironment({ startToCloseTimeoutMs: 100 }).run(activities().dispatchWebhooks)

    assert.equal(await status(), 'failed')
    assert.equal((await read(id)).body.verification_status, 'pending_verification')
  })
})
