// Compares embeddings and reranking by the ONNX server with infinity and sentence-transformers, on one thread each and
// in turn. Also measures the time from cached weights to a warm model: npm run bench:embeddings [-- --rounds 5]. With
// --device cuda, the server and its peers run on PyTorch on a GPU. With --vllm PYTHON (the vllm environment's
// interpreter), vLLM is a peer.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'
import { AdminClient } from '../cli/admin-client.ts'
import { importModel } from '../cli/commands/models.ts'
import { peakMb } from '../node-runtime/processes/process-usage.ts'
import {
  convertSpecialist,
  type TinySpecialist,
  tinySpecialist,
} from '../test/support/builders/models/tiny-specialist.ts'
import { OPERATIONS_KEY, startApi } from '../test/support/servers/api.ts'
import { stopDatabases } from '../test/support/servers/database.ts'
import { startNode } from '../test/support/servers/nodes/node.ts'
import { type SpecialistServer, startSpecialist, TORCH } from '../test/support/servers/nodes/specialist.ts'
import {
  copyForOlder,
  type EmbeddingsPeer,
  startInfinity,
  startSentenceTransformers,
  startVllm,
} from './embeddings/peers.ts'
import type { CpuTimes } from './line-program.ts'
import { cpuSeconds, median } from './platform.ts'
import { randomNumbers } from './random-numbers.ts'
import { unlessOnce } from './rounds.ts'

/** The shape of MiniLM-L6: 22.7 million parameters. */
const MINILM: TinySpecialist = {
  hidden: 384,
  layers: 6,
  heads: 12,
  extraVocab: 30_266,
  positions: 512,
}
const WORDS = 'the quick brown fox jumps over a lazy dog what is capital of france you are'.split(' ')
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    device: { type: 'string', default: 'cpu' },
    vllm: { type: 'string' },
  },
})
const { device } = values
const ROUNDS = unlessOnce(Number(values.rounds))
const COUNTS = { 1: 60, 8: 160, 32: 256 } as const
const BULK = { mixed: 128, short: 256 } as const

const chance = randomNumbers(16)
const normal = () => Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance())
const textOf = (words: number) =>
  Array.from({ length: words }, () => WORDS[Math.floor(chance() * WORDS.length)]).join(' ')
/** Log-normal lengths: half of the texts have at most 16 words, the mean is 30, and a few have up to 290. */
const LENGTHS = { mu: 2.8, sigma: 1.1, least: 2, most: 290 }
const lengthByChance = () => Math.round(Math.exp(LENGTHS.mu + LENGTHS.sigma * normal()))
const mixed = (count: number) =>
  Array.from({ length: count }, () =>
    textOf(Math.min(LENGTHS.most, Math.max(LENGTHS.least, lengthByChance()))),
  )
const short = (count: number) => Array.from({ length: count }, () => textOf(1 + Math.floor(chance() * 20)))

interface Figure {
  perSecond: number
  p50: number
  cpuMs: number
}

/** Sends each text in a separate request, several at a time. */
async function load(
  pid: number,
  texts: readonly string[],
  clients: number,
  ask: (text: string) => Promise<void>,
): Promise<Figure> {
  const times: number[] = []
  const [began, cpu] = [performance.now(), cpuSeconds(pid)]
  let next = 0
  const client = async () => {
    for (let text = texts[next++]; text !== undefined; text = texts[next++]) {
      const sent = performance.now()
      await ask(text)
      times.push(performance.now() - sent)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const seconds = (performance.now() - began) / 1_000
  return {
    perSecond: texts.length / seconds,
    p50: median(times),
    cpuMs: ((cpuSeconds(pid) - cpu) * 1_000) / texts.length,
  }
}

const printResult = (what: string, ours: string, theirs: string, goal: string) =>
  console.log(`${what.padEnd(34)} ${ours.padEnd(44)} ${theirs.padEnd(48)} ${goal}`)
const middle = (figures: readonly Figure[], of: (figure: Figure) => number) => median(figures.map(of))
const shown = (figures: readonly Figure[]) =>
  `${middle(figures, (one) => one.perSecond).toFixed(1)}/s, p50 ${middle(figures, (one) => one.p50).toFixed(0)} ms, ` +
  `${middle(figures, (one) => one.cpuMs).toFixed(1)} ms CPU`
const goal = (text: string, isMet: boolean) => `${text}: ${isMet ? 'met' : 'MISSED'}`

/** Compares the server with a peer that implements OpenAI's API. */
async function overHttp(server: SpecialistServer, name: string, peer: EmbeddingsPeer): Promise<void> {
  const pool = new Pool(peer.url, { connections: 64, headersTimeout: 0, bodyTimeout: 0 })
  const callPeer = async (text: string) => {
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: peer.path,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: peer.model, input: [text] }),
    })
    await body.dump()
    if (statusCode !== 200) throw new Error(`${name} answered ${statusCode}`)
  }
  const callHearth = async (text: string) => {
    const { status } = await server.ask({ text }, 'embeddings')
    if (status !== 200) throw new Error(`the server returned ${status}`)
  }
  for (const [clients, count] of Object.entries(COUNTS).map(([a, b]) => [Number(a), b] as const)) {
    const texts = mixed(count)
    const [ours, theirs]: Figure[][] = [[], []]
    for (let round = 0; round < ROUNDS; round++) {
      ours?.push(await load(server.pid, texts, clients, callHearth))
      theirs?.push(await load(peer.pid, texts, clients, callPeer))
    }
    const [own = [], other = []] = [ours, theirs]
    const rate = middle(own, (one) => one.perSecond) / middle(other, (one) => one.perSecond)
    const wait = middle(own, (one) => one.p50) / middle(other, (one) => one.p50)
    const verdicts = {
      1: goal(`p50 ${wait.toFixed(2)} times, at most 1`, wait <= 1),
      8: `${rate.toFixed(1)} times`,
      32: goal(
        `${rate.toFixed(1)} times, at least 4; p50 ${wait.toFixed(2)}, at most 0.33`,
        rate >= 4 && wait <= 1 / 3,
      ),
    }
    printResult(
      `over HTTP, ${clients} at a time`,
      shown(own),
      `${name} ${shown(other)}`,
      verdicts[clients as 1],
    )
  }
  const [mb, other] = [Math.round(await peakMb([server.pid])), Math.round(await peakMb([peer.pid]))]
  printResult('peak memory', `${mb} MB`, `${name} ${other} MB`, goal('at most 300 MB', mb <= 300))
  await pool.destroy()
}

const startOurs = async (model: string): Promise<SpecialistServer> =>
  device === 'cpu'
    ? startSpecialist(model, await convertSpecialist(model))
    : startSpecialist(model, '', TORCH)

async function inBulk(
  embedder: SpecialistServer,
  folder: string,
  models: { embedder: string; reranker: string },
): Promise<void> {
  const query = textOf(12)
  const sets = {
    query,
    mixed: mixed(BULK.mixed),
    short: short(BULK.short),
  }
  const texts = join(folder, 'texts.json')
  writeFileSync(texts, JSON.stringify(sets))
  await using peer = await startSentenceTransformers(folder, { ...models, texts, device })
  await using reranker = await startOurs(models.reranker)
  const rows = [
    ['mixed', 'bulk embeddings, mixed lengths', 3.5, embedder, { text: sets.mixed }],
    ['short', 'bulk embeddings, short texts', 1.5, embedder, { text: sets.short }],
    ['rerank', 'rerank, mixed lengths', 3.5, reranker, { query, documents: sets.mixed }],
  ] as const
  for (const [kind, what, least, server, body] of rows) {
    const [ours, theirs]: [CpuTimes[], CpuTimes[]] = [[], []]
    for (let round = 0; round < ROUNDS; round++) {
      const [began, cpu] = [performance.now(), cpuSeconds(server.pid)]
      const { status } = await server.ask(body)
      if (status !== 200) throw new Error(`the server returned ${status}`)
      ours.push({ clock: (performance.now() - began) / 1_000, cpu: cpuSeconds(server.pid) - cpu })
      theirs.push(await peer.seconds(kind))
    }
    const count = kind === 'short' ? BULK.short : BULK.mixed
    const by = (all: readonly CpuTimes[], of: keyof CpuTimes) => median(all.map((one) => one[of]))
    const formatTimes = (all: readonly CpuTimes[]) =>
      `${(count / by(all, 'clock')).toFixed(0)}/s, ${((1_000 * by(all, 'cpu')) / count).toFixed(1)} ms CPU`
    const ratio = by(theirs, 'clock') / by(ours, 'clock')
    const ofCpu = by(theirs, 'cpu') / by(ours, 'cpu')
    printResult(
      what,
      `${formatTimes(ours)}, over HTTP`,
      `sentence-transformers ${formatTimes(theirs)}`,
      goal(`${ratio.toFixed(1)} times (${ofCpu.toFixed(1)} by CPU), at least ${least}`, ratio >= least),
    )
  }
}

/** Loads a model whose weights and conversion are on disk, on a node that has just started. */
async function cachedToWarm(folder: string, path: string): Promise<void> {
  await using _databases = { [Symbol.asyncDispose]: stopDatabases }
  await using api = await startApi()
  const { accountId } = await api.account()
  const client = new AdminClient(api.baseUrl, OPERATIONS_KEY)
  const { model_key } = await importModel(client, { name: 'embedder', path, task: 'embeddings', accountId })
  const dir = join(folder, 'node')
  const seconds: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    await using node = await startNode(api, { realCatalog: true, memoryMb: 6_000, accountId, dir })
    const began = performance.now()
    await node.parts.models.load(model_key)
    seconds.push((performance.now() - began) / 1_000)
  }
  const [first = 0, ...cached] = seconds
  const warm = median(cached)
  printResult(
    'cached to warm',
    `${warm.toFixed(2)} s`,
    `the first load, including conversion, takes ${first.toFixed(1)} s`,
    goal('at most 1.5 s', warm <= 1.5),
  )
}

const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-embeddings-'))
try {
  const [embedder, reranker] = [
    await tinySpecialist(MINILM),
    await tinySpecialist({ ...MINILM, kind: 'rerank' }),
  ]
  {
    await using server = await startOurs(embedder)
    {
      const older = await copyForOlder(embedder, join(folder, 'older'))
      await using infinity = await startInfinity(folder, older, device)
      await overHttp(server, 'infinity', infinity)
    }
    if (values.vllm !== undefined) {
      await using vllm = await startVllm(values.vllm, embedder)
      await overHttp(server, 'vLLM', vllm)
    }
    await inBulk(server, folder, { embedder, reranker })
  }
  if (device === 'cpu') await cachedToWarm(folder, embedder)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
