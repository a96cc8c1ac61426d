import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { fetchPayload, fetchRelayed } from '../../node-runtime/edges/fetch-payload.ts'
import { PayloadStore } from '../../node-runtime/edges/payload-store.ts'
import type { EdgePeer } from '../../node-runtime/edges/pinned-client.ts'
import { answerCalls } from './calls.ts'

// The consumer of bench/edges.ts: fetches payloads to files, as a node does, and counts the bytes of a bare stream.

interface FetchOrder {
  sha256: string
  /** False skips the digest, to measure its cost. */
  isVerified: boolean
}

const store = await PayloadStore.open({ dir: join(process.argv[2]!, 'consumer'), limitMb: 4_096 })

/** A digest that costs nothing and is always right. */
const unverified = (sha256: string) => ({ update() {}, digest: () => sha256 })
const writerFor = ({ sha256, isVerified }: FetchOrder) =>
  store.write(isVerified ? {} : { digest: unverified(sha256) })

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

answerCalls({
  direct: ({ peer, ...wanted }: FetchOrder & { peer: EdgePeer }) =>
    milliseconds(async () => {
      using _payload = await fetchPayload(peer, { writer: await writerFor(wanted), sha256: wanted.sha256 })
    }),
  relayed: ({ url, ...wanted }: FetchOrder & { url: string }) =>
    milliseconds(async () => {
      using _payload = await fetchRelayed(url, { writer: await writerFor(wanted), sha256: wanted.sha256 })
    }),
  memory: ({ url }: { url: string }) =>
    milliseconds(async () => {
      const answer = await new Promise<IncomingMessage>((resolve) => get(url, resolve))
      answer.resume()
      await once(answer, 'end')
    }),
})
