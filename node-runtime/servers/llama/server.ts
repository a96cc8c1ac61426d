import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { loadBinding } from './binding.ts'
import { type Answer, ChatModel, type Listener } from './chat-model.ts'
import { type ChatRequest, readChat, readDecode, readPrefill, SERVED_NAME } from './chat-request.ts'
import type { ReadState } from './context-state.ts'
import { BadPayloadError, openVerified, payloadPath } from './exchange.ts'
import { bodyOf, endWith, send, serve, serverOptions } from './serving.ts'
import { UnusableError } from './unusable-error.ts'

const MAX_BODY = 64 * 1024 * 1024

/** Loads a GGUF and serves OpenAI's chat completions: see ../README.md. */
async function main(): Promise<void> {
  const options = serverOptions()
  const model = await ChatModel.load(await loadBinding(options.packages), options)
  const serving = { model, exchange: options.exchange }
  const { sequences } = model.plan
  serve(options, (request, response) => void answer(serving, request, response), { concurrency: sequences })
}

interface ServedModel {
  model: ChatModel
  /** The exchange folder for payloads. */
  exchange: string
}

async function answer(
  serving: ServedModel,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { model } = serving
  const route = `${request.method} ${request.url?.split('?')[0]}`
  if (route === 'GET /health') return send(response, 200, { status: 'ok', in_flight: model.inFlight })
  if (route === 'GET /v1/models') {
    const common = { id: SERVED_NAME, object: 'model', created: 0, owned_by: 'hearth' }
    const one = { ...common, max_model_len: model.plan.length }
    return send(response, 200, { object: 'list', data: [one] })
  }
  const work = WORK.get(route)
  if (!work) return send(response, 404, error(`there is no ${route} here`))

  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  try {
    await work(serving, JSON.parse(await textOf(request)), response, leaving.signal)
  } catch (err) {
    if (leaving.signal.aborted) return
    fail(response, err)
  }
}

type Work = (
  serving: ServedModel,
  body: unknown,
  response: ServerResponse,
  signal: AbortSignal,
) => Promise<void>

const WORK = new Map<string, Work>([
  ['POST /v1/chat/completions', ({ model }, body, ...rest) => complete({ model }, readChat(body), ...rest)],
  ['POST /prefill', prefill],
  ['POST /decode', decode],
])

/** Evaluates a prompt for another server, which continues from the file. */
async function prefill(
  { model, exchange }: ServedModel,
  body: unknown,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const request = readPrefill(body)
  const path = payloadPath(exchange, request.file)
  const { sizeBytes, tokens } = await model.prefill(request, path, signal)
  send(response, 200, { file: request.file, size_bytes: sizeBytes, tokens })
}

async function decode(
  { model, exchange }: ServedModel,
  body: unknown,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const { request, payload } = readDecode(body)
  await using file = await openVerified(exchange, payload)
  const tokens = await model.checkState(file, payloadPath(exchange, 'layout.draft'))
  const state = { path: payloadPath(exchange, payload.file), tokens }
  await complete({ model, state }, request, response, signal)
}

/** A conversation with a model, which may start from another server's state. */
interface Conversation {
  model: ChatModel
  state?: ReadState
}

function complete(
  conversation: Conversation,
  chat: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  return (chat.isStream ? stream : whole)(conversation, chat, response, signal)
}

async function whole(
  { model, state }: Conversation,
  chat: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  let thought = ''
  const onThought = (text: string) => void (thought += text)
  const listener = { onText: () => {}, onThought, onCall: () => {}, signal }
  const { text, calls, finishReason, usage } = await model.answer(chat, listener, state)
  const message = {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    refusal: null,
    ...(thought && { reasoning_content: thought }),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReason }
  send(response, 200, { ...head('chat.completion', chat.model), choices: [choice], usage })
}

async function stream(
  { model, state }: Conversation,
  chat: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const common = head('chat.completion.chunk', chat.model)
  const chunk = (delta: object, finish: Answer['finishReason'] | null = null) => {
    // Send the headers with the first text: until then the request may still be rejected.
    if (!response.headersSent) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    }
    const choice = { index: 0, delta, logprobs: null, finish_reason: finish }
    sendEvent(response, { ...common, choices: [choice], ...(chat.withUsage && { usage: null }) })
  }
  let isFirst = true
  const delta = (what: object) => {
    chunk(isFirst ? { role: 'assistant', ...what } : what)
    isFirst = false
  }
  const listener: Listener = {
    onText: (content) => delta({ content }),
    onThought: (text) => delta({ reasoning_content: text }),
    onCall: (fragment) => delta({ tool_calls: [fragment] }),
    signal,
  }
  const answered = await model.answer(chat, listener, state)
  if (isFirst) delta({ content: '' })
  chunk({}, answered.finishReason)
  if (chat.withUsage) sendEvent(response, { ...common, choices: [], usage: answered.usage })
  response.end('data: [DONE]\n\n')
}

const head = (object: string, model: string) => ({
  id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model,
})

function sendEvent(response: ServerResponse, value: unknown): void {
  response.write(`data: ${JSON.stringify(value)}\n\n`)
}

function fail(response: ServerResponse, err: unknown): void {
  const [status, body] = failureOf(err)
  if (!response.headersSent) return send(response, status, body)
  sendEvent(response, body)
  response.end()
}

function failureOf(err: unknown): [status: number, body: object] {
  if (err instanceof BadPayloadError) {
    return [422, error(err.message, { type: 'invalid_payload_error', code: err.failure })]
  }
  if (err instanceof UnusableError) return [400, error(err.message, { field: err.field })]
  if (err instanceof SyntaxError) return [400, error(err.message)]
  process.stderr.write(`${(err as Error).stack ?? String(err)}\n`)
  return [500, error('the model failed on this request', { type: 'server_error' })]
}

interface ErrorParts {
  type?: string
  field?: string | null
  code?: string | null
}

const error = (
  message: string,
  { type = 'invalid_request_error', field = null, code = null }: ErrorParts = {},
) => ({ error: { message, type, param: field, code } })

async function textOf(request: IncomingMessage): Promise<string> {
  const body = await bodyOf(request, MAX_BODY)
  if (body === undefined) throw new UnusableError(`the body is larger than ${MAX_BODY >> 20} MB`)
  return body.toString()
}

main().catch(endWith)
