import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

// A language model server for tests: `node fake-llm.ts <model dir>`. The request's `fake` field controls its behavior.

/** The behavior that a request can specify; everything is optional. */
interface Fake {
  /** The number of tokens in the response, and the time between two of them. */
  tokens?: number
  gap_ms?: number
  /** The delay before the first byte. */
  delay_ms?: number
  status?: number
  /** Rejects requests with more messages than this. */
  most_messages?: number
  /** The message of the error response; with `echoes`, the request itself is the message or the whole body. */
  message?: string
  echoes?: 'message' | 'body'
  /** The complete response body in pieces (base64), each sent in a separate write. */
  pieces?: string[]
  content_type?: string
  /** Bytes of text in every token. */
  size?: number
  no_done?: boolean
  no_usage?: boolean
  /** Exits the process after this many tokens; -1 means before the first byte. */
  die_after?: number
  /** Responds, then stops listening, while its process keeps running. */
  deaf?: boolean
  /** Exits the process when the listener of this socket says so: see `dieOnce`. */
  die_once?: string
}

interface ChatRequest {
  stream?: boolean
  model?: string
  fake?: Fake
  /** The same behavior as JSON, for routes that drop unknown fields. */
  user?: string
  messages?: unknown[]
}

/** `remembered` counts the requests that contained an account's memory. */
const stats = { requests: 0, in_flight: 0, aborted: 0, remembered: 0, last: '' }
/** The numbers of running and waiting requests. */
const engine = { running: 0, waiting: 0 }
const metrics = () =>
  [
    '# TYPE fake:running gauge',
    `fake:running{engine="0"} ${engine.running}.0`,
    `fake:running_total 7`,
    `fake:waiting{engine="0"} ${engine.waiting}`,
  ].join('\n')
const usage = (tokens: number) => ({
  prompt_tokens: 12,
  completion_tokens: tokens,
  total_tokens: 12 + tokens,
})
const base = (model: string) => ({ id: 'chatcmpl-fake', created: 1_700_000_000, model })

async function chat(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const body = await read(req)
  const {
    stream,
    model = '',
    user = '',
    fake = user.startsWith('{') ? (JSON.parse(user) as Fake) : {},
    messages = [],
  } = JSON.parse(body) as ChatRequest
  const name = weights.served ?? (weights.echo ? model : 'fake')
  stats.requests += 1
  stats.last = body
  if (body.includes('Notes remembered')) stats.remembered += 1
  stats.in_flight += 1
  res.once('close', () => {
    stats.in_flight -= 1
    if (!res.writableFinished) stats.aborted += 1
  })
  if (fake.die_after === -1) process.exit(3)
  if (fake.die_once && (await text(connect(fake.die_once))) === 'die') process.exit(3)
  if (fake.deaf) {
    server.close()
    setInterval(() => {}, 60_000)
    res.setHeader('connection', 'close')
  }
  await using _turn = await turn()
  if (fake.delay_ms) await sleep(fake.delay_ms)
  if (messages.length > (fake.most_messages ?? Infinity))
    return answer(res, { error: { message: 'too many messages' } }, 400)
  if (fake.status && fake.echoes === 'body') return void res.writeHead(fake.status).end(body)
  if (fake.status && fake.echoes) return answer(res, { error: { message: body, param: body } }, fake.status)
  if (fake.status)
    return answer(res, { error: { message: fake.message ?? 'as you wish', type: 'fake' } }, fake.status)
  // Every request names a model, except the first one after a load.
  if (weights.served !== undefined && ![weights.served, ''].includes(model)) {
    return answer(res, { error: { message: `the model ${model} does not exist` } }, 404)
  }
  if (fake.pieces) return pieces(res, fake)
  if (stream) return events(res, fake, name)
  const { tokens = 3, size = 4 } = fake
  const message = { role: 'assistant', content: 'word '.repeat(tokens).padEnd(size, 'x') }
  answer(res, {
    ...base(name),
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    ...(!fake.no_usage && { usage: usage(tokens) }),
  })
}

/** Waits until the engine runs fewer requests than its weights allow. */
async function turn(): Promise<AsyncDisposable> {
  engine.waiting += 1
  while (engine.running >= (weights.runs ?? Infinity)) await sleep(5)
  engine.waiting -= 1
  engine.running += 1
  return {
    [Symbol.asyncDispose]: async () => {
      engine.running -= 1
    },
  }
}

async function pieces(
  res: ServerResponse,
  { pieces: parts = [], content_type, gap_ms = 5 }: Fake,
): Promise<void> {
  res.writeHead(200, { 'content-type': content_type ?? 'text/event-stream' })
  for (const part of parts) {
    res.write(Buffer.from(part, 'base64'))
    await sleep(gap_ms)
  }
  res.end()
}

async function events(res: ServerResponse, fake: Fake, name: string): Promise<void> {
  const { tokens = 3, gap_ms = 0, size = 4 } = fake
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (choices: object[], more: object = {}) => {
    const chunk = { ...base(name), object: 'chat.completion.chunk', choices, ...more }
    return res.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  send([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
  for (let i = 0; i < tokens; i++) {
    if (fake.die_after === i) process.exit(3)
    const content = ` t${i}@${Math.round((performance.timeOrigin + performance.now()) * 1000)}`.padEnd(
      size,
      'x',
    )
    const hasRoom = send([{ index: 0, delta: { content }, finish_reason: null }])
    if (res.destroyed) return
    if (!hasRoom) await new Promise((resolve) => res.once('drain', resolve).once('close', resolve))
    if (gap_ms) await sleep(gap_ms)
  }
  send([{ index: 0, delta: {}, finish_reason: 'stop' }], fake.no_usage ? {} : { usage: usage(tokens) })
  res.end(fake.no_done ? undefined : 'data: [DONE]\n\n')
}

/** An embedding model that counts words, so texts with the same words are close to each other. */
async function embed(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { text } = JSON.parse(await read(req)) as { text: string | string[] }
  if ([text].flat().some((each) => each.includes('POISON')))
    return answer(res, { error: { message: `cannot embed ${String(text)}` } }, 422)
  if (!weights.batches && Array.isArray(text))
    return answer(res, { error: { message: 'one text only' } }, 422)
  answer(res, Array.isArray(text) ? { embeddings: text.map(vectorOf) } : { embedding: vectorOf(text) })
}

function vectorOf(text: string): number[] {
  const vector = Array.from({ length: 64 }, () => 0.001)
  for (const word of text.toLowerCase().match(/[a-z]+/g) ?? []) {
    const place = Buffer.from(word).reduce((sum, letter) => (sum * 31 + letter) % 64, 7)
    vector[place] = (vector[place] ?? 0) + 1
  }
  return vector
}

function answer(res: ServerResponse, value: object, status = 200): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

async function read(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const weights = JSON.parse(readFileSync(join(process.argv[2] ?? '.', 'weights.json'), 'utf8')) as {
  load_s?: number
  broken?: boolean
  unusable?: boolean
  /** The only model name that it accepts, and under which it responds. */
  served?: string
  /** The number of requests that it runs at once. */
  runs?: number
  /** True to respond under the model name in the request. */
  echo?: boolean
  /** True for an embedding model that accepts lists of strings. */
  batches?: boolean
}
await sleep((weights.load_s ?? 0) * 1000)
if (weights.unusable) {
  process.stderr.write('its weights cannot be used: they are of clay\n')
  process.exit(65)
}
if (weights.broken) throw new Error('these weights are broken')
const server = createServer((req, res) => {
  if (req.method === 'POST' && req.url === '/infer') void embed(req, res)
  else if (req.method === 'POST') void chat(req, res)
  else if (req.url === '/metrics') res.end(metrics())
  else answer(res, req.url === '/health' ? { status: 'ok' } : stats)
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`${JSON.stringify({ event: 'ready', port })}\n`)
})
