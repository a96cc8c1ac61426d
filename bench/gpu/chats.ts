import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ModelServer } from '../../node-runtime/models/server.ts'
import { post } from './machine.ts'

const PATH = '/v1/chat/completions'
/** vLLM requires the name that its profile serves; the other servers ignore it. */
const MODEL = 'model'

interface Usage {
  prompt_tokens: number
  completion_tokens: number
}

/** Returns the first messages of a number of chats. */
export const greetings = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `Hello number ${index}`)

const bodyOf = (content: string, maxTokens: number) => ({
  model: MODEL,
  messages: [{ role: 'user', content }],
  max_tokens: maxTokens,
  temperature: 0,
})

/** Sends all chats at once, with at most `maxTokens` tokens each, and returns their total rate in tokens per second. */
export async function chatsAtOnce(
  server: ModelServer,
  contents: readonly string[],
  maxTokens: number,
): Promise<number> {
  const began = performance.now()
  const counts = await Promise.all(
    contents.map(async (content) => {
      const body = await post(server, PATH, bodyOf(content, maxTokens))
      return ((await body.json()) as { usage: Usage }).usage.completion_tokens
    }),
  )
  const tokens = counts.reduce((sum, count) => sum + count, 0)
  return (1_000 * tokens) / (performance.now() - began)
}

/** Completes one chat; returns its text and the number of its prompt's tokens. */
export async function chat(
  server: ModelServer,
  content: string,
  maxTokens: number,
): Promise<{ text: string; promptTokens: number }> {
  const body = await post(server, PATH, bodyOf(content, maxTokens))
  const { choices, usage } = (await body.json()) as ChatAnswer
  return { text: choices[0]?.message.content ?? '', promptTokens: usage.prompt_tokens }
}

export interface ChatAnswer {
  choices: { message: { content: string } }[]
  usage: Usage
}

/** Streams one chat and returns the milliseconds to the first text. */
export async function timeToFirstToken(server: ModelServer, content: string): Promise<number> {
  const began = performance.now()
  const body = await post(server, PATH, { ...bodyOf(content, 4), stream: true })
  let ms: number | undefined
  for await (const line of createInterface({ input: Readable.from(body) })) {
    if (!line.startsWith('data: {')) continue
    const { choices } = JSON.parse(line.slice('data: '.length)) as {
      choices: { delta: { content?: string }; finish_reason?: string | null }[]
    }
    if (choices.some(({ delta, finish_reason }) => delta.content || finish_reason))
      ms ??= performance.now() - began
  }
  if (ms === undefined) throw new Error('a stream ended without text')
  return ms
}
