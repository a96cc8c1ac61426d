import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Kysely } from 'kysely'
import { Pool } from 'undici'
import { Journal } from '../api/gateway/journal/journal.ts'
import type { TaskEntry } from '../db/repositories/tasks/entry.ts'
import * as eventRepository from '../db/repositories/webhooks/events.ts'
import type { Database } from '../db/tables.ts'
import { newId } from '../domain/ids.ts'
import { createLogger } from '../platform/log.ts'

/** The account that the events belong to, with one webhook endpoint. */
export interface Publisher {
  accountId: string
  endpointId: string
  modelKey: string
}

/**
 * Turns the load driver's requests into terminal tasks through the gateway's journal; responds once they're durable.
 */
export async function startJournalFeed(db: Kysely<Database>, publishers: Record<string, Publisher>) {
  const journal = new Journal(db, createLogger('feed', 'error'))
  const server = await serve(async (path, body) => {
    const publisher = publishers[path]
    if (!publisher) throw new Error(`no publisher at ${path}`)
    await journal.insert(endedTask(publisher, body))
  })
  return feedOf(server, () => journal[Symbol.asyncDispose]())
}

/** The reference: one insert and one POST per event, and nothing else. */
export async function startBareFeed(
  db: Kysely<Database>,
  publisher: Publisher,
  destination: string,
  ca: string,
) {
  const { origin, pathname } = new URL(destination)
  const pool = new Pool(origin, { connections: 16, connect: { ca } })
  const server = await serve(async (_path, body) => {
    const event = eventOf(newId(), publisher, body)
    await eventRepository.insertFrozenEvents(db, [event])
    const answer = await pool.request({ method: 'POST', path: pathname, body: event.payload })
    await answer.body.dump()
  })
  return feedOf(server, () => pool.close())
}

function endedTask({ accountId, endpointId, modelKey }: Publisher, lab: string): TaskEntry {
  const now = new Date()
  const form = eventRepository.eventForm({
    accountId,
    type: 'inference.task.succeeded',
    resource: { object: 'inference.task', status: 'succeeded' },
    resourceUrl: (id) => `/api/builder/v1/tasks/${id}`,
  })
  // The driver's marks become fields of the payload.
  const payload = `${form.payload.slice(0, -1)},${lab.trim().slice(1).replaceAll('%', '%%')}`
  return {
    template: {
      account_id: accountId,
      endpoint_id: endpointId,
      status: 'succeeded',
      surface: 'rest',
      model_key: modelKey,
      model_state: 'resident',
      price_micro: 0,
      node_id: null,
      gateway_id: null,
      key_id: null,
      transfers: [],
      event: { ...form, payload },
    },
    id: newId(),
    input: Buffer.from('{}'),
    result: Buffer.from('{}'),
    error: null,
    inference_time_ms: 1,
    created_at: now,
    started_at: now,
    completed_at: now,
    tokens: { in: 0, out: 0 },
  }
}

/** Builds an event whose payload includes the driver's marks. */
function eventOf(id: string, { accountId }: Publisher, lab: string) {
  const event = eventRepository.freezeEvent(
    {
      accountId,
      type: 'inference.task.succeeded',
      resource: { id, object: 'inference.task', status: 'succeeded' },
      resourceUrl: `/api/builder/v1/tasks/${id}`,
    },
    new Date(),
  )
  const payload = { ...(JSON.parse(event.payload.toString()) as object), ...(JSON.parse(lab) as object) }
  return { ...event, payload: Buffer.from(JSON.stringify(payload)) }
}

async function serve(take: (path: string, body: string) => Promise<void>): Promise<Server> {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      take(req.url ?? '', Buffer.concat(chunks).toString()).then(
        () => res.writeHead(202).end(),
        (err: unknown) => res.writeHead(500).end(String(err)),
      )
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function feedOf(server: Server, close: () => Promise<unknown>) {
  return {
    url: (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
      await close()
    },
  }
}
