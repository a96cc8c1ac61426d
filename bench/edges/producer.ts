import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Edges } from '../../node-runtime/edges/edges.ts'
import type { EdgeAttempt } from '../../node-runtime/edges/payload.ts'
import type { EdgePeer } from '../../node-runtime/edges/pinned-client.ts'
import { relayPayload, type RelayUpload } from '../../node-runtime/edges/relay.ts'
import { answerCalls } from './calls.ts'

// The producer of bench/edges.ts: a node's end of edges, and a bare HTTP server.

const HOLD_TTL_MS = 3_600_000
const PIECE = randomBytes(1024 * 1024)
const edges = await Edges.open({
  dir: join(process.argv[2]!, 'producer'),
  limitMb: 4_096,
  listen: { host: '127.0.0.1', port: 0 },
})
const server = (await edges.server())!
const held = new Map<number, EdgeAttempt>()

/** Stores a payload of this size, and returns what a consumer needs to fetch it. */
async function offer(bytes: number): Promise<EdgePeer & { sha256: string }> {
  let at = held.get(bytes)
  if (!at) {
    await using writer = await edges.store.write({ sizeBytes: bytes })
    for (let left = bytes; left > 0; left -= PIECE.length)
      await writer.write(left < PIECE.length ? PIECE.subarray(0, left) : PIECE)
    using payload = await writer.finish()
    at = { edgeId: randomUUID(), attempt: 1 }
    edges.store.hold(payload, at, HOLD_TTL_MS)
    held.set(bytes, at)
  }
  const ticket = randomBytes(32).toString('base64url')
  const ticketSha256 = createHash('sha256').update(ticket).digest('hex')
  server.admit(at, { ticketSha256, beginWithinMs: HOLD_TTL_MS })
  const { sha256 } = edges.store.find(at)!
  return { ...at, ticket, url: server.candidates[0]!.url, spkiSha256: server.spkiSha256, sha256 }
}

/** Sends the same number of bytes from memory, without TLS or tickets. */
async function bare(path: string, res: ServerResponse): Promise<void> {
  const bytes = Number(path.slice(1))
  res.writeHead(200, { 'content-length': bytes })
  for (let left = bytes; left > 0; left -= PIECE.length)
    if (!res.write(left < PIECE.length ? PIECE.subarray(0, left) : PIECE)) await once(res, 'drain')
  res.end()
}

const plain = createServer((req, res) => void bare(req.url ?? '', res))
plain.listen(0, '127.0.0.1')
await once(plain, 'listening')

answerCalls({
  offer,
  plainUrl: async () => `http://127.0.0.1:${(plain.address() as AddressInfo).port}`,
  relay: ({ bytes, upload }: { bytes: number; upload: RelayUpload }) =>
    relayPayload(edges.store.find(held.get(bytes)!)!, upload, new AbortController().signal),
})
