// Has one language model server process read a prompt and another continue it, handing the cache over as nodes do
// (HTTPS, file to file, sha256). Compares this with one process that does both: npm run bench:handover [-- --size small
// --tokens 2048 --rounds 5]. With a GPU: --size 1b, a Llama shape of 1.2 billion parameters in bf16 with random
// weights.
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import { Edges } from '../node-runtime/edges/edges.ts'
import { pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { llmPython } from '../test/support/builders/models/tiny-llm.ts'
import { HAND_OVER_LIMIT_MB, handOver, SPACE } from './handover/hand-over.ts'
import { startLineProgram } from './line-program.ts'
import { median } from './platform.ts'

const SIZES: Readonly<Record<string, readonly string[]>> = {
  small: ['--hidden', '256', '--layers', '8'],
  '1b': ['--hidden=2048', '--layers=16', '--heads=32', '--kv-heads=8', '--intermediate=8192', '--vocab=512'],
}
/** Unused rows of the embeddings: real vocabularies are large, and so is the cost of multiplying with them. */
const EXTRA_VOCAB: Readonly<Record<string, string>> = { small: '0', '1b': '127488' }
const { values } = parseArgs({
  options: {
    size: { type: 'string', default: 'small' },
    tokens: { type: 'string', default: '2048' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: '1' },
  },
})
const [tokens, rounds] = [Number(values.tokens), Number(values.rounds)]
const form = SIZES[values.size]
if (!form) throw new Error(`--size must be one of ${Object.keys(SIZES).join(', ')}`)
const ROOT = join(import.meta.dirname, '..')
const SERVER = join(ROOT, 'node-runtime', 'servers', 'llm_server.py')
const MAKER = join(ROOT, 'test', 'support', 'builders', 'models', 'tiny_llm.py')
const MAKE_TIMEOUT_MS = 600_000
/** A sentence from the tokenizer's own text; it has about ten tokens. */
const SENTENCE = 'The quick brown fox jumps over the lazy dog. '
const SENTENCE_TOKENS = 10
const GREEDY = { temperature: 0 }

const folder = await mkdtemp(join(tmpdir(), 'hearth-bench-handover-'))
await using stack = new AsyncDisposableStack()
stack.defer(() => rm(folder, { recursive: true, force: true }))

const python = await llmPython()
const model = join(folder, 'model')
const limits = ['--positions', String(2 * tokens + 1_024), '--extra-vocab', EXTRA_VOCAB[values.size] ?? '0']
await runProgram(python, [MAKER, model, ...form, ...limits], {
  env: pythonProcessEnv({ HF_HUB_OFFLINE: '1' }),
  timeout: MAKE_TIMEOUT_MS,
})

/** Starts a model server with its payload folder, and the node's end of edges. */
async function startEnd(name: string) {
  const exchange = join(folder, `${name}-exchange`)
  await mkdir(exchange)
  const args = ['--model', model, '--port', '0', '--threads', values.threads, '--exchange', exchange]
  const server = stack.use(await startLineProgram(python, [SERVER, ...args]))
  const { port } = JSON.parse(server.first) as { port: number }
  const listen = { host: '127.0.0.1', port: 0 }
  const edges = stack.use(await Edges.open({ dir: join(folder, name), limitMb: HAND_OVER_LIMIT_MB, listen }))
  return { exchange, edges, post: (path: string, body: object) => post(port, path, body) }
}

interface Answer {
  choices: { message: { content: string } }[]
  usage: { prompt_tokens: number }
}

async function post(port: number, path: string, body: object): Promise<unknown> {
  const answer = await request(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${await answer.body.text()}`)
  return await answer.body.json()
}

const producer = await startEnd('producer')
const consumer = await startEnd('consumer')

/** Each round has a different prompt. */
const messagesOf = (round: number) => [
  { role: 'user', content: `${round}. ${SENTENCE.repeat(Math.ceil(tokens / SENTENCE_TOKENS))}` },
]

async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const began = performance.now()
  const value = await work()
  return [performance.now() - began, value]
}

const figures = {
  whole: [] as number[],
  prefill: [] as number[],
  carry: [] as number[],
  first: [] as number[],
}
let [promptTokens, megabytes] = [0, 0]
for (let round = -1; round < rounds; round++) {
  const messages = messagesOf(round)
  const one = { max_tokens: 1, ...GREEDY }
  const [whole, alone] = await timed(() => consumer.post('/v1/chat/completions', { messages, ...one }))
  const file = `round-${round + 1}`
  const decodeRequest = { messages, file, space_fingerprint: SPACE }
  const [prefill] = await timed(() => producer.post('/prefill', decodeRequest))
  const [carry, payload] = await timed(() => handOver(file, { producer, consumer }))
  const [first, answer] = await timed(() => consumer.post('/decode', { ...payload, ...one }))
  const [said, wanted] = [answer as Answer, alone as Answer]
  if (said.choices[0]?.message.content !== wanted.choices[0]?.message.content)
    throw new Error('the first token differs from that of a single process')
  ;[promptTokens, megabytes] = [wanted.usage.prompt_tokens, payload.size_bytes / 1e6]
  await rm(join(consumer.exchange, file))
  // The first round is for compilation and warm-up.
  if (round < 0) continue
  figures.whole.push(whole)
  figures.prefill.push(prefill)
  figures.carry.push(carry)
  figures.first.push(first)
}

const [whole, prefill, carry, first] = [figures.whole, figures.prefill, figures.carry, figures.first].map(
  median,
)
const [sum, alone] = [(prefill ?? 0) + (carry ?? 0) + (first ?? 0), whole ?? 0]
const show = (name: string, ms: number | undefined) =>
  console.log(`${name.padEnd(46)} ${(ms ?? 0).toFixed(1).padStart(9)} ms`)
console.log(`${promptTokens} tokens, a cache of ${megabytes.toFixed(1)} MB, median of ${rounds} rounds`)
show('first token, one process', alone)
show('first token, read here and continued there', sum)
show('  the prompt is read and its cache written', prefill)
show('  the cache is handed over and verified', carry)
show('  the cache is loaded, and the token chosen', first)
console.log(
  `${(sum / alone).toFixed(2)} times; the process that continues is busy for ${((first ?? 0) / alone).toFixed(3)} of the time`,
)
