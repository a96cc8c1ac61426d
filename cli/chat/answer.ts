import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { eventsIn } from '../../platform/event-stream.ts'
import { CliError, WRONG_USE } from '../cli-error.ts'
import { plain } from '../print.ts'

export interface Message {
  role: 'system' | 'user' | 'assistant'
  content: string
}

export interface Chat {
  baseUrl: string
  key: string
  model: string
  maxTokens?: number | undefined
  temperature?: number | undefined
}

export interface Answer {
  text: string
  tokens: number
  firstMs: number
  tokensPerS: number
}

/** If all tokens arrive within this time, the rate includes the wait for the first token. */
const BURST_INTERVAL_MS = 50

interface Chunk {
  choices?: { delta?: { content?: string | null } }[]
  usage?: { completion_tokens?: number } | null
  error?: { message?: string; code?: string }
}

interface Listener {
  onText: (text: string) => void
  /** Called while a cold model is loading. */
  onLoading: (seconds: number) => void
  signal: AbortSignal
}

/** Streams a chat completion. While the model is loading, retries until it is available. */
export async function answer(chat: Chat, messages: readonly Message[], listener: Listener): Promise<Answer> {
  for (;;) {
    const began = performance.now()
    const { statusCode, headers, body } = await sent(chat, messages, listener.signal)
    if (statusCode === 200) return read(body, began, listener)
    const { error } = parsed(await body.text())
    const retryAfter = Number(headers['retry-after'])
    if (statusCode === 503 && error?.code === 'model_cold' && retryAfter >= 0) {
      listener.onLoading(retryAfter)
      await sleep(Math.max(1, retryAfter) * 1000, undefined, { signal: listener.signal })
      continue
    }
    if (statusCode === 401)
      throw new CliError(
        `${chat.baseUrl} rejects this API key; \`npx hearth whoami\` shows where it comes from`,
        WRONG_USE,
      )
    const why =
      error?.message ?? `${chat.baseUrl} returned ${statusCode} with a body that Hearth doesn't send`
    throw new CliError(error?.code ? `${why} (${error.code})` : why)
  }
}

async function sent(
  { baseUrl, key, model, maxTokens, temperature }: Chat,
  messages: readonly Message[],
  signal: AbortSignal,
) {
  const body = {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(temperature !== undefined && { temperature }),
  }
  try {
    return await request(`${baseUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      headersTimeout: 0,
      bodyTimeout: 0,
      signal,
    })
  } catch (err) {
    signal.throwIfAborted()
    throw new CliError(`Cannot reach ${baseUrl} (${(err as Error).message}). Is the platform running?`)
  }
}

async function read(body: AsyncIterable<Uint8Array>, began: number, { onText }: Listener): Promise<Answer> {
  let first: number | undefined
  let text = ''
  let pieces = 0
  let counted: number | undefined
  for await (const data of eventsIn(body)) {
    if (data === '[DONE]') break
    const { choices, usage, error } = parsed(data)
    if (error)
      throw new CliError(`the response was interrupted: ${error.message ?? error.code ?? 'unknown reason'}`)
    counted = usage?.completion_tokens ?? counted
    const piece = plain(choices?.[0]?.delta?.content ?? '')
    if (piece === '') continue
    first ??= performance.now()
    pieces++
    text += piece
    onText(piece)
  }
  const end = performance.now()
  const tokens = counted ?? pieces
  const firstMs = (first ?? end) - began
  const writingMs = end - began - firstMs
  const tokensPerS = (tokens / (writingMs < BURST_INTERVAL_MS ? end - began : writingMs)) * 1000
  return { text, tokens, firstMs, tokensPerS }
}

function parsed(text: string): Chunk {
  try {
    return (JSON.parse(text) as Chunk | null) ?? {}
  } catch {
    return {}
  }
}
