import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EdgePeer } from '../node-runtime/edges/pinned-client.ts'
import { openS3ObjectStore } from '../platform/object-store/s3.ts'
import { startS3 } from '../test/support/servers/s3.ts'
import { startTcpProxy } from '../test/support/servers/tcp-proxy.ts'
import { type Callee, startCallee, type Usage } from './edges/calls.ts'
import { median } from './platform.ts'

// One gigabyte from a file of one process to a file of another: over an edge, over the same code without TLS and without
// a digest, beside a bare HTTP stream from memory to memory and a hop through an object store: npm run bench:edges

const GB = 1_000_000_000
const MB = 1_000_000
const SMALL = 64 * 1024
const ROUNDS = Number(process.argv[2] ?? 5)
const SMALL_ROUNDS = 100

interface Run {
  ms: number
  cpuS: { producer: number; consumer: number }
  peakBytes: { producer: number; consumer: number }
}

const verdict = (isMet: boolean) => (isMet ? 'met' : 'MISSED')
let isGood = true
function goal(what: string, figure: number, isMet: boolean, wanted: string): void {
  isGood &&= isMet
  console.log(`${what}: ${figure.toFixed(3)} (goal: ${wanted}): ${verdict(isMet)}`)
}

async function measured(producer: Callee, consumer: Callee, work: () => Promise<number>): Promise<Run> {
  const usage = () => Promise.all([producer.call<Usage>('usage'), consumer.call<Usage>('usage')])
  const [p0, c0] = await usage()
  const ms = await work()
  const [p1, c1] = await usage()
  return {
    ms,
    cpuS: { producer: p1.cpuS - p0.cpuS, consumer: c1.cpuS - c0.cpuS },
    peakBytes: { producer: p1.peakBytes, consumer: c1.peakBytes },
  }
}

const folder = await mkdtemp(join(tmpdir(), 'hearth-bench-'))
try {
  await using producer = startCallee('producer.ts', [folder])
  await using consumer = startCallee('consumer.ts', [folder])
  const plainUrl = await producer.call<string>('plainUrl')
  const peerOf = (bytes: number) => producer.call<EdgePeer & { sha256: string }>('offer', bytes)
  const small = await peerOf(SMALL)
  const { sha256, ...peer } = await peerOf(GB)
  const file = { url: `${plainUrl}/file/${GB}`, sha256 }
  const ways: Record<string, () => Promise<number>> = {
    'bare HTTP, memory to memory': () => consumer.call('memory', { url: `${plainUrl}/memory/${GB}` }),
    'HTTP, file to file, no digest': () => consumer.call('plain', { ...file, isVerified: false }),
    'HTTP, file to file, sha256': () => consumer.call('plain', { ...file, isVerified: true }),
    'HTTPS, file to file, no digest': () => consumer.call('direct', { peer, sha256, isVerified: false }),
    'an edge: HTTPS, file to file, sha256': () => consumer.call('direct', { peer, sha256, isVerified: true }),
  }

  const s3 = await startS3()
  await using stack = new AsyncDisposableStack()
  if ('missing' in s3) console.log(`no object-store hop: ${s3.missing}`)
  else {
    stack.use(s3)
    const store = openS3ObjectStore(s3.options)
    ways['object store: PUT, then GET'] = async () => {
      const put = { expiresInS: 3_600, contentType: 'application/octet-stream', sha256 }
      const upload = await store.signPut('cohorts/payload', put)
      const began = performance.now()
      await producer.call('relay', { bytes: GB, upload })
      const ms = performance.now() - began
      const { url } = await store.signGet('cohorts/payload', { expiresInS: 3_600 })
      return ms + (await consumer.call<number>('relayed', { url, sha256, isVerified: true }))
    }
  }

  // Code is compiled by the first transfers of a small payload, after which both processes are idle.
  const { sha256: smallSha256, ...smallPeer } = small
  const transferSmall = () =>
    consumer.call<number>('direct', { peer: smallPeer, sha256: smallSha256, isVerified: true })
  const times: number[] = []
  for (let i = -20; i < SMALL_ROUNDS; i++) {
    const ms = await transferSmall()
    if (i >= 0) times.push(ms)
  }
  const [idleP, idleC] = await Promise.all([producer.call<Usage>('usage'), consumer.call<Usage>('usage')])
  // Other ways leave garbage behind, so memory is measured before them.
  const first = await measured(producer, consumer, ways['an edge: HTTPS, file to file, sha256']!)

  const runs: Record<string, Run[]> = Object.fromEntries(Object.keys(ways).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, way] of Object.entries(ways)) runs[name]!.push(await measured(producer, consumer, way))

  console.log(`\n${GB / MB} MB, median of ${ROUNDS} rounds`)
  for (const [name, each] of Object.entries(runs)) {
    const cpu = (end: 'producer' | 'consumer') => median(each.map(({ cpuS }) => cpuS[end]))
    const best = Math.min(...each.map(({ ms }) => ms))
    console.log(
      `${name.padEnd(38)} ${rate(median(each.map(({ ms }) => ms)))} (best ${rate(best)}) MB/s, ` +
        `CPU s/GB ${cpu('producer').toFixed(2)} + ${cpu('consumer').toFixed(2)}`,
    )
  }
  const ratio = (one: string, other: string) =>
    median(runs[one]!.map(({ ms }, i) => runs[other]![i]!.ms / ms))
  const cpuOf = (name: string) =>
    median(runs[name]!.map(({ cpuS }) => cpuS.producer + cpuS.consumer)) / (GB / 1e9)
  const [bare, , plain, tlsNone, edge, hop] = Object.keys(ways) as [
    string,
    string,
    string,
    string,
    string,
    string?,
  ]
  console.log()
  const none = ratio(plain, 'HTTP, file to file, no digest')
  goal('with sha256, of without, over HTTP', none, none >= 0.65, 'at least 0.65')
  const none2 = ratio(edge, tlsNone)
  goal('with sha256, of without, over HTTPS', none2, none2 >= 0.65, 'at least 0.65')
  const bareRatio = ratio(plain, bare)
  goal('verified, of bare HTTP from memory to memory', bareRatio, bareRatio >= 0.35, 'at least 0.35')
  console.log(`an edge with its TLS, of bare HTTP: ${ratio(edge, bare).toFixed(3)}`)
  goal('CPU s/GB of both ends with sha256', cpuOf(plain), cpuOf(plain) <= 2.4, 'at most 2.4')
  goal('CPU s/GB of both ends with sha256 and TLS', cpuOf(edge), cpuOf(edge) <= 2.8, 'at most 2.8')
  if (hop !== undefined) {
    const faster = ratio(edge, hop)
    goal('an edge, of a hop through the object store', faster, faster >= 3, 'at least 3')
  }
  for (const [end, idle] of [
    ['producer', idleP],
    ['consumer', idleC],
  ] as const) {
    const above = (first.peakBytes[end] - idle.peakBytes) / MB
    goal(`MB of the ${end} above idle`, above, above <= 40, 'at most 40')
  }

  await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
  proxy.cutAt = GB / 2
  const through = { ...peer, url: `https://127.0.0.1:${proxy.port}` }
  await consumer.call('direct', { peer: through, sha256, isVerified: true })
  const moved = proxy.bytes / GB
  goal('bytes moved when the connection is cut half way', moved, moved <= 1.05, 'at most 1.05')
  const p50 = median(times)
  goal('ms from connecting to verified for 64 KiB, p50', p50, p50 <= 25, 'at most 25')
  if (!isGood) process.exitCode = 1
} finally {
  await rm(folder, { recursive: true, force: true })
}

function rate(ms: number): string {
  return String(Math.round(GB / MB / (ms / 1_000))).padStart(5)
}
