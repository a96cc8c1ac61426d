// Sends chats to one language model server one after the other and then all at once, in the same run, and compares the
// tokens: npm run bench:batching [-- --chats 8 --tokens 64 --prompt 48 --rounds 3 --threads 1]. The model is a Llama
// shape of about 100 million parameters in fp32 with random weights.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { Agent, request } from 'undici'
import { pythonProcessEnv } from '../node-runtime/environments/python-env.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { llmPython } from '../test/support/builders/models/tiny-llm.ts'
import { judge } from './floors.ts'
import { startLineProgram } from './line-program.ts'
import { cpuSeconds, median } from './platform.ts'

const { values } = parseArgs({
  options: {
    chats: { type: 'string', default: '8' },
    tokens: { type: 'string', default: '64' },
    prompt: { type: 'string', default: '48' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '1' },
  },
})
const [chats, tokens, length, rounds] = [values.chats, values.tokens, values.prompt, values.rounds].map(
  Number,
) as [number, number, number, number]
const SIZE = ['--hidden=768', '--layers=12', '--heads=12', '--kv-heads=4', '--intermediate=2304', '--tied']
/** The tokenizer has 384 tokens; the other embeddings are unused, but cost as much as real ones. */
const VOCABULARY = ['--vocab=384', '--extra-vocab=24000']
const ROOT = join(import.meta.dirname, '..')
const SERVER = join(ROOT, 'node-runtime', 'servers', 'llm_server.py')
const MAKER = join(ROOT, 'test', 'support', 'builders', 'models', 'tiny_llm.py')
const MAKE_TIMEOUT_MS = 600_000
/** The lowest ordinary token id; those below have a special meaning. */
const FIRST_TOKEN = 7
const MIN_TIMES_FASTER = 2
const MAX_CPU_SHARE = 0.5

const folder = await mkdtemp(join(tmpdir(), 'hearth-bench-batching-'))
await using stack = new AsyncDisposableStack()
stack.defer(() => rm(folder, { recursive: true, force: true }))

const python = await llmPython()
const model = join(folder, 'model')
await runProgram(python, [MAKER, model, ...SIZE, ...VOCABULARY, '--dtype=float32', '--positions=4096'], {
  env: pythonProcessEnv({ HF_HUB_OFFLINE: '1' }),
  timeout: MAKE_TIMEOUT_MS,
})
const args = ['--model', model, '--port', '0', '--threads', values.threads, '--concurrency', values.chats]
const server = stack.use(await startLineProgram(python, [SERVER, ...args]))
const { port } = JSON.parse(server.first) as { port: number }
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 })
stack.defer(() => agent.close())

interface Answer {
  choices: { token_ids: number[] }[]
}

/** Returns the tokens of a greedy response. Each chat has a prompt of a different length. */
async function chat(number: number, maxTokens = tokens): Promise<number[]> {
  const prompt = Array.from(
    { length: length + 8 * number },
    (_, i) => FIRST_TOKEN + ((i * 31 + number * 17) % 300),
  )
  const answer = await request(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: maxTokens, temperature: 0, return_token_ids: true }),
    dispatcher: agent,
  })
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${await answer.body.text()}`)
  return ((await answer.body.json()) as Answer).choices[0]?.token_ids ?? []
}

const numbers = Array.from({ length: chats }, (_, i) => i)
const ratios: { time: number[]; cpu: number[] } = { time: [], cpu: [] }
const speeds: { alone: number[]; together: number[] } = { alone: [], together: [] }
// Warm up, one by one and together.
for (const some of [numbers.slice(0, 1), numbers.slice(0, 2)])
  await Promise.all(some.map((number) => chat(number, 4)))
for (let round = 0; round < rounds; round++) {
  const [began, cpuBegan] = [performance.now(), cpuSeconds(server.pid)]
  const alone: number[][] = []
  for (const number of numbers) alone.push(await chat(number))
  const [between, cpuBetween] = [performance.now(), cpuSeconds(server.pid)]
  const together = await Promise.all(numbers.map((number) => chat(number)))
  const [ended, cpuEnded] = [performance.now(), cpuSeconds(server.pid)]
  if (!isDeepStrictEqual(together, alone)) throw new Error('chats together had other tokens than alone')
  const count = alone.flat().length
  speeds.alone.push((count * 1_000) / (between - began))
  speeds.together.push((count * 1_000) / (ended - between))
  ratios.time.push((between - began) / (ended - between))
  ratios.cpu.push((cpuEnded - cpuBetween) / (cpuBetween - cpuBegan))
}

console.log(
  `${chats} chats of ${tokens} tokens, median of ${rounds} rounds: ${median(speeds.alone).toFixed(1)} tokens/s one ` +
    `after the other, ${median(speeds.together).toFixed(1)} tokens/s at once; equal tokens`,
)
judge('batching', [
  {
    what: 'at once, of one after the other',
    measured: median(ratios.time),
    goal: MIN_TIMES_FASTER,
    isMost: true,
  },
  // On a busy machine, a server with more threads gets more of the processor, whatever it does with it.
  { what: 'CPU at once, of one after the other', measured: median(ratios.cpu), goal: MAX_CPU_SHARE },
])
