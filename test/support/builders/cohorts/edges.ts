import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { EdgeServer } from '../../../../node-runtime/edges/edge-server.ts'
import { Edges } from '../../../../node-runtime/edges/edges.ts'
import type { PayloadStore } from '../../../../node-runtime/edges/payload-store.ts'
import type { EdgeAttempt, Payload } from '../../../../node-runtime/edges/payload.ts'
import type { EdgePeer } from '../../../../node-runtime/edges/pinned-client.ts'
import { temporaryFolder } from '../temporary-folder.ts'

export const MB = 1024 * 1024
export const sha256Of = (bytes: Uint8Array | string): string =>
  createHash('sha256').update(bytes).digest('hex')
export const newTicket = (): string => randomBytes(32).toString('base64url')
export const newAttempt = (attempt = 1): EdgeAttempt => ({ edgeId: randomUUID(), attempt })

/** Stores bytes as a payload. */
export async function storeBytes(store: PayloadStore, bytes: Uint8Array): Promise<Payload> {
  await using writer = await store.write()
  await writer.write(bytes)
  return writer.finish()
}

/** The edges of two nodes, each in its own folder. */
export interface TwoNodes extends AsyncDisposable {
  producer: Edges
  consumer: Edges
  server: EdgeServer
  /** Stores bytes at the producer and admits a consumer; returns the peer to fetch them from. */
  offer(bytes: Uint8Array, at?: EdgeAttempt): Promise<EdgePeer>
}

export async function openTwoNodes({ limitMb = 200 } = {}): Promise<TwoNodes> {
  const folder = temporaryFolder()
  const open = (name: string) =>
    Edges.open({ dir: join(folder.path, name), limitMb, listen: { host: '127.0.0.1', port: 0 } })
  const [producer, consumer] = await Promise.all([open('producer'), open('consumer')])
  const server = (await producer.server())!
  return {
    producer,
    consumer,
    server,
    async offer(bytes, at = newAttempt()) {
      using payload = await storeBytes(producer.store, bytes)
      producer.store.hold(payload, at, 60_000)
      return { ...at, ...admit(server, at) }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([producer[Symbol.asyncDispose](), consumer[Symbol.asyncDispose]()])
      folder[Symbol.dispose]()
    },
  }
}

/** Admits a consumer with a new ticket. */
export function admit(
  server: EdgeServer,
  at: EdgeAttempt,
  beginWithinMs = 60_000,
): Omit<EdgePeer, keyof EdgeAttempt> {
  const ticket = newTicket()
  server.admit(at, { ticketSha256: sha256Of(ticket), beginWithinMs })
  return { ticket, url: server.candidates[0]!.url, spkiSha256: server.spkiSha256 }
}
