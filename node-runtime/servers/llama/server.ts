import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { loadBinding } from './binding.ts'
import { type Answer, ChatModel } from './chat-model.ts'
import { type ChatRequest, readChat, SERVED_NAME } from './chat-request.ts'
import { bodyOf, endWith, send, serve, serverOptions } from './serving.ts'
import { UnusableError } from './unusable-error.ts'

const LARGEST_BODY = 64 * 1024 * 1024

/** Loads a GGUF and serves OpenAI's chat completions: see ../README.md. */
async function main(): Promise<void> {
  const options = serverOptions()
  const model = await ChatModel.load(await loadBinding(options.packages), options)
  serve(options, (request, response) => void answer(model, request, response))
}

async function answer(model: ChatModel, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const route = `${request.method} ${request.url?.split('?')[0]}`
  if (route === 'GET /health') return send(response, 200, { status: 'ok', in_flight: model.inFlight })
  if (route === 'GET /v1/models') {
    const one = { id: SERVED_NAME, object: 'model', created: 0, owned_by: 'hearth' }
    return send(response, 200, { object: 'list', data: [one] })
  }
  if (route !== 'POST /v1/chat/completions') return send(response, 404, error(`there is no ${route} here`))

  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  try {
    const chat = readChat(JSON.parse(await textOf(request)))
    await (chat.isStream ? stream : whole)(model, chat, response, leaving.signal)
  } catch (err) {
    if (leaving.signal.aborted) return
    fail(response, err)
  }
}

async function whole(
  model: ChatModel,
  chat: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  let thought = ''
  const onThought = (text: string) => void (thought += text)
  const { text, calls, finishReason, usage } = await model.answer(chat, {
    onText: () => {},
    onThought,
    onCall: () => {},
    signal,
  })
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
  model: ChatModel,
  chat: ChatRequest,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const common = head('chat.completion.chunk', chat.model)
  const chunk = (delta: object, finish: Answer['finishReason'] | null = null) => {
    // The headers are sent with the first text, because until then the request may still be refused.
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
  const answered = await model.answer(chat, {
    onText: (content) => delta({ content }),
    onThought: (text) => delta({ reasoning_content: text }),
    onCall: (fragment) => delta({ tool_calls: [fragment] }),
    signal,
  })
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
  const isCallers = err instanceof UnusableError || err instanceof SyntaxError
  if (!isCallers) process.stderr.write(`${(err as Error).stack ?? String(err)}\n`)
  const body = isCallers
    ? error((err as Error).message, { field: err instanceof UnusableError ? err.field : null })
    : error('the model failed on this request', { type: 'server_error' })
  if (!response.headersSent) return send(response, isCallers ? 400 : 500, body)
  sendEvent(response, body)
  response.end()
}

const error = (
  message: string,
  { type = 'invalid_request_error', field = null }: { type?: string; field?: string | null } = {},
) => ({ error: { message, type, param: field, code: null } })

async function textOf(request: IncomingMessage): Promise<string> {
  const body = await bodyOf(request, LARGEST_BODY)
  if (body === undefined) throw new UnusableError(`the body is larger than ${LARGEST_BODY >> 20} MB`)
  return body.toString()
}

main().catch(endWith)
