import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Edges } from '../../node-runtime/edges/edges.ts'
import type { ModelServer } from '../../node-runtime/models/server.ts'
import { HAND_OVER_LIMIT_MB, handOver, SPACE } from '../handover/hand-over.ts'
import { chat, type ChatAnswer, chatsAtOnce, greetings, timeToFirstToken } from './chats.ts'
import { type Machine, PeakMemory, post, startPlain, startServer, timed } from './machine.ts'
import { modelFolder } from './models.ts'
import { MissingError, type Section } from './sections.ts'
import type { Figure, Row, Side } from './table.ts'

const SENTENCE = 'The quick brown fox jumps over the lazy dog. '
/** With the tokenizer of the model, which is made from this sentence and others. */
const SENTENCE_TOKENS = 11
const WARM_UP_TOKENS = 4
/** Tokens of an answer after a hand-over. */
const DECODED_TOKENS = 16
const GENERATE = join(import.meta.dirname, 'generate.py')
/** Room for the weights of the model and the cache of all chats. */
const VLLM_SHARE = 0.5

/** Measures one engine's chats. */
interface Engine {
  tokensPerSecond: (contents: readonly string[], tokens: number) => Promise<number>
  msToFirstToken: (content: string) => Promise<number>
  memory: PeakMemory
}

/** Returns the sections that chat with a model, and that hand a prompt over from one server to another. */
export function servingSections(
  machine: Machine,
  vllmPython: () => Promise<string>,
): { rows: Row[]; sections: Section[] } {
  const plain = chatRows(machine, 'chat', 'generate()')
  const vllm = chatRows(machine, 'vllm', 'vLLM alone')
  const handed = handOverRow(machine)
  const sections: Section[] = [
    {
      name: 'chat',
      side: 'ours',
      title: 'chats with llm-transformers',
      limitS: 80,
      rows: [...plain.all, ...vllm.all],
      run: () =>
        withHearth(machine, (engine) => measure(machine, engine, { of: 'ours', rows: [plain, vllm] })),
    },
    {
      name: 'chat',
      side: 'reference',
      title: 'the same chats with generate()',
      limitS: 60,
      rows: plain.all,
      run: (signal) =>
        withGenerate(machine, signal, (engine) =>
          measure(machine, engine, { of: 'reference', rows: [plain] }),
        ),
    },
    {
      name: 'handover',
      side: 'ours',
      title: 'a hand-over between two servers',
      limitS: 60,
      rows: [handed],
      run: () => measureHandOver(machine, handed),
    },
    {
      name: 'vllm',
      side: 'reference',
      title: 'the same chats with vLLM',
      limitS: 150,
      rows: vllm.all,
      async run() {
        if (machine.gpus.length === 0) throw new MissingError('vLLM needs a GPU')
        const python = await vllmPython()
        await withVllm(machine, python, (engine) =>
          measure(machine, engine, { of: 'reference', rows: [vllm] }),
        )
      },
    },
  ]
  return { rows: [...plain.all, ...vllm.all, handed], sections }
}

interface ChatRows {
  byClients: ReadonlyMap<number, Row>
  prompt: Row
  all: Row[]
}

function chatRows({ scale: { chat: sizes } }: Machine, section: string, referenceName: string): ChatRows {
  const row = (what: string, unit: Row['unit']): Row => ({ section, what, unit, referenceName, notes: [] })
  const byClients = new Map(
    sizes.clients.map((count) => [
      count,
      row(`chat: ${count} at once, ${sizes.tokens} tokens each`, 'tokens/s'),
    ]),
  )
  const prompt = row(`chat: first token after about ${sizes.promptTokens} tokens`, 'ms')
  return { byClients, prompt, all: [...byClients.values(), prompt] }
}

const promptOf = ({ scale }: Machine, name: string): string =>
  `${name}. ${SENTENCE.repeat(Math.floor(scale.chat.promptTokens / SENTENCE_TOKENS))}`

/** Fills in the rows of one engine. Each kind of request is sent once before it is timed. */
async function measure(
  machine: Machine,
  { tokensPerSecond, msToFirstToken, memory }: Engine,
  { of: side, rows }: { of: Side; rows: readonly ChatRows[] },
): Promise<void> {
  const fill = async (rowOf: (rows: ChatRows) => Row | undefined, value: number) => {
    const figure: Figure = { value, memoryMb: await memory.read() }
    for (const one of rows) {
      const row = rowOf(one)
      if (row) row[side] = figure
    }
  }
  const { clients, tokens } = machine.scale.chat
  await msToFirstToken(promptOf(machine, 'Warm-up'))
  await fill(({ prompt }) => prompt, await msToFirstToken(promptOf(machine, 'Measurement')))
  for (const count of clients) {
    const contents = greetings(count)
    await tokensPerSecond(contents, WARM_UP_TOKENS)
    await fill(({ byClients }) => byClients.get(count), await tokensPerSecond(contents, tokens))
  }
}

type WithEngine = (engine: Engine) => Promise<void>

async function withServer(machine: Machine, server: ModelServer, work: WithEngine): Promise<void> {
  using memory = new PeakMemory(machine, () => server.pids())
  try {
    await work({
      tokensPerSecond: (contents, tokens) => chatsAtOnce(server, contents, tokens),
      msToFirstToken: (content) => timeToFirstToken(server, content),
      memory,
    })
  } finally {
    await server.stop({ graceMs: 0 })
  }
}

async function withHearth(machine: Machine, work: WithEngine): Promise<void> {
  const server = await startServer(machine, 'llm-transformers', { modelDir: modelFolder(machine, 'llm') })
  await withServer(machine, server, async (engine) => {
    await work(engine)
    if (machine.gpus.length === 0) return
    const mb = (await engine.memory.read()) ?? 0
    machine.check(
      'the chat server computes on the GPU',
      mb > 0,
      `nvidia-smi lists ${mb} MB for its processes`,
    )
  })
}

async function withVllm(machine: Machine, python: string, work: WithEngine): Promise<void> {
  const compileDir = join(machine.dir, 'compiled')
  await mkdir(compileDir)
  const modelDir = modelFolder(machine, 'llm')
  const options = { modelDir, python, vramShare: VLLM_SHARE, compileDir }
  await withServer(machine, await startServer(machine, 'llm-vllm-process', options), work)
}

async function withGenerate(machine: Machine, signal: AbortSignal, work: WithEngine): Promise<void> {
  // Model servers use half of the cores, too.
  const threads = Math.max(1, Math.floor(availableParallelism() / 2))
  const args = [GENERATE, modelFolder(machine, 'llm')]
  await using program = await startPlain(machine, args, { threads, signal })
  using memory = PeakMemory.ofTree(machine, program.pid)
  const seconds = async (contents: readonly string[], tokens: number) =>
    (await program.seconds(JSON.stringify({ contents, tokens }))).clock
  await work({
    tokensPerSecond: async (contents, tokens) =>
      (contents.length * tokens) / (await seconds(contents, tokens)),
    msToFirstToken: async (content) => 1_000 * (await seconds([content], 1)),
    memory,
  })
}

function handOverRow({ scale: { chat: sizes } }: Machine): Row {
  return {
    section: 'handover',
    what: `hand-over: read about ${sizes.promptTokens} tokens here, answer with ${DECODED_TOKENS} there`,
    unit: 'ms',
    referenceName: 'one server',
    notes: [],
  }
}

/** Starts a chat server, and the node's end of edges. */
async function startEnd(machine: Machine, name: string) {
  const modelDir = modelFolder(machine, 'llm')
  const server = await startServer(machine, 'llm-transformers', { name: `bench-${name}`, modelDir })
  const exchange = server.exchangeDir
  if (exchange === undefined) throw new Error('the chat server has no folder for payloads')
  const listen = { host: '127.0.0.1', port: 0 }
  const edges = await Edges.open({ dir: join(machine.dir, name), limitMb: HAND_OVER_LIMIT_MB, listen })
  return { server, exchange, edges }
}

/** One server reads the prompt and another continues it; the reference is the second server alone. */
async function measureHandOver(machine: Machine, row: Row): Promise<void> {
  const [producer, consumer] = await Promise.all([
    startEnd(machine, 'producer'),
    startEnd(machine, 'consumer'),
  ])
  await using stack = new AsyncDisposableStack()
  for (const { server, edges } of [producer, consumer]) {
    stack.use(edges)
    stack.defer(() => server.stop({ graceMs: 0 }))
  }
  const memoryOf = (servers: readonly ModelServer[]) =>
    stack.use(
      new PeakMemory(machine, async () => (await Promise.all(servers.map((one) => one.pids()))).flat()),
    )
  const both = memoryOf([producer.server, consumer.server])
  const alone = memoryOf([consumer.server])
  for (const name of ['Warm-up', 'Measurement']) {
    const content = promptOf(machine, name)
    const [ms, { text, promptTokens }] = await timed(() => chat(consumer.server, content, DECODED_TOKENS))
    const file = randomUUID()
    const messages = [{ role: 'user', content }]
    const prefill = { messages, file, space_fingerprint: SPACE }
    const [prefillMs] = await timed(async () => (await post(producer.server, '/prefill', prefill)).dump())
    const [carryMs, payload] = await timed(() => handOver(file, { producer, consumer }))
    const decode = { ...payload, max_tokens: DECODED_TOKENS, temperature: 0 }
    const [decodeMs, answer] = await timed(
      async () => (await (await post(consumer.server, '/decode', decode)).json()) as ChatAnswer,
    )
    if (answer.choices[0]?.message.content !== text)
      throw new Error('the answer after the hand-over differs from that of one server')
    row.ours = { value: prefillMs + carryMs + decodeMs, memoryMb: await both.read() }
    row.reference = { value: ms, memoryMb: await alone.read() }
    row.notes = [
      `${promptTokens} tokens, ${(payload.size_bytes / 1e6).toFixed(1)} MB`,
      `prefill ${prefillMs.toFixed(0)} ms, transfer ${carryMs.toFixed(0)} ms, decode ${decodeMs.toFixed(0)} ms`,
    ]
  }
}
