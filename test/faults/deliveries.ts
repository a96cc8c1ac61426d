import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@temporalio/client'
import type { Kysely } from 'kysely'
import type { Database } from '../../db/tables.ts'
import { retryDeliveryNow } from '../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { eventually } from '../support/assertions/until.ts'
import type { BuilderClient } from '../support/servers/clients/builder-client.ts'
import { startReceiver } from '../support/servers/receiver.ts'

/** A webhook endpoint that answers its challenge, and accepts and records events. */
export interface Inbox extends AsyncDisposable {
  /** By event id: the number of arrivals, the paths and the bodies. */
  readonly received: ReadonlyMap<string, { times: number; paths: Set<string>; bodies: Set<string> }>
  url(path: string): string
  /** Returns the settings that let a platform deliver to this inbox, and writes its certificate to the folder. */
  environment(folder: string): NodeJS.ProcessEnv
}

/** Starts an inbox. While `accepts` returns false, it rejects events, so that their deliveries stay open. */
export async function startInbox(accepts: () => boolean = () => true): Promise<Inbox> {
  const received = new Map<string, { times: number; paths: Set<string>; bodies: Set<string> }>()
  const receiver = await startReceiver((req, res, body) => {
    const event = JSON.parse(body.toString()) as { id: string; data: { verification_challenge?: string } }
    const challenge = event.data.verification_challenge
    if (challenge !== undefined) {
      res.setHeader('service-verification-challenge', challenge)
      res.end(JSON.stringify({ verification_challenge: challenge }))
      return
    }
    if (!accepts()) return void res.writeHead(503).end()
    const seen = received.get(event.id) ?? { times: 0, paths: new Set(), bodies: new Set() }
    seen.times += 1
    seen.paths.add(req.url ?? '')
    seen.bodies.add(body.toString())
    received.set(event.id, seen)
    setTimeout(() => res.writeHead(204).end(), 20)
  })
  return {
    received,
    url: (path) => receiver.url(path, 'localhost'),
    environment(folder) {
      const certificate = join(folder, 'receiver.pem')
      writeFileSync(certificate, receiver.certificate)
      return {
        HEARTH_FEATURES: 'webhooks',
        HEARTH_EGRESS_ALLOW: `127.0.0.0/8:${receiver.port},::1/128:${receiver.port}`,
        NODE_EXTRA_CA_CERTS: certificate,
      }
    },
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  }
}

/** Returns the undelivered work: events that have not been fanned out, and deliveries that have not succeeded. */
export const undelivered = async (db: Kysely<Database>): Promise<{ id: string; status: string }[]> => {
  const outbox = await db.selectFrom('webhook_outbox').select('event_id as id').execute()
  const deliveries = await db
    .selectFrom('webhook_delivery')
    .select(['id', 'status'])
    .where('status', '<>', 'succeeded')
    .execute()
  return [...outbox.map(({ id }) => ({ id, status: 'waiting' })), ...deliveries]
}

/**
 * Skips two waits: the timeout after which a dead sender's attempt counts as interrupted, and the pause before the next
 * attempt.
 */
export async function hurry(
  db: Kysely<Database>,
  temporal: Client,
  { senderDiedAt }: { senderDiedAt: Date },
): Promise<void> {
  const died = db
    .selectFrom('webhook_attempt')
    .select('delivery_id')
    .where('outcome', 'is', null)
    .where('started_at', '<', senderDiedAt)
  await db
    .updateTable('webhook_delivery')
    .set({ next_attempt_at: new Date() })
    .where('status', '=', 'delivering')
    .where('id', 'in', died)
    .execute()
  for (const { id, status } of await undelivered(db)) {
    if (status !== 'retrying') continue
    const workflow = temporal.workflow.getHandle(WORKFLOW_ID.delivery(id))
    // The workflow may not have started yet.
    await workflow.signal(retryDeliveryNow).catch(() => {})
  }
}

/** Creates a verified endpoint that receives events of these types from now on. */
export async function verifiedEndpoint(
  api: BuilderClient,
  url: string,
  event_types: readonly string[],
): Promise<void> {
  const body = { name: 'faults', url, event_types }
  const { endpoint_id: id } = await api.post<{ endpoint_id: string }>('/webhook-endpoints', body)
  await eventually('the verification', async () => {
    const one = await api.get<{ verification_status: string }>(`/webhook-endpoints/${id}`)
    return one.verification_status === 'active' || undefined
  })
}
