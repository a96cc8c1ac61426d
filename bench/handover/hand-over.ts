import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { link } from 'node:fs/promises'
import { join } from 'node:path'
import type { Edges } from '../../node-runtime/edges/edges.ts'

const HOLD_TTL_MS = 600_000
export const HAND_OVER_LIMIT_MB = 16_384
/** Both servers have the same weights, so any fingerprint will do. */
export const SPACE = 'a'.repeat(64)

/** One of the two ends of a hand-over. */
export interface HandOverEnd {
  /** The folder that a model server shares with its node. */
  exchange: string
  edges: Edges
}

/** The fields of a decode request that describe a payload. */
export interface HandedOver {
  file: string
  size_bytes: number
  sha256: string
  space_fingerprint: string
}

/** Fetches a file from the producer's server as a consumer's node does, and passes it to the consumer's server. */
export async function handOver(
  file: string,
  { producer, consumer }: { producer: HandOverEnd; consumer: HandOverEnd },
): Promise<HandedOver> {
  const { store } = producer.edges
  using made = await store.adopt(join(producer.exchange, file), {
    maxBytes: HAND_OVER_LIMIT_MB * 1024 * 1024,
  })
  const at = { edgeId: randomUUID(), attempt: 1 }
  store.hold(made, at, HOLD_TTL_MS)
  const server = await producer.edges.server()
  if (!server) throw new Error('the producer is not listening')
  const ticket = randomBytes(32).toString('base64url')
  const ticketSha256 = createHash('sha256').update(ticket).digest('hex')
  server.admit(at, { ticketSha256, beginWithinMs: HOLD_TTL_MS })
  const peer = { ...at, ticket, url: server.candidates[0]?.url ?? '', spkiSha256: server.spkiSha256 }
  const { sizeBytes, sha256 } = made
  const source = { transport: 'direct', peer } as const
  using taken = await consumer.edges.receive(at, source, { maxBytes: sizeBytes, sizeBytes, sha256 })
  await link(taken.path, join(consumer.exchange, file))
  await producer.edges.release(at)
  return { file, size_bytes: sizeBytes, sha256, space_fingerprint: SPACE }
}
