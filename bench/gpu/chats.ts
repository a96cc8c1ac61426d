import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ModelServer } from '../../node-runtime/models/server.ts'

const PATH = '/v1/chat/completions'

interface Usage {
  prompt_tokens: number
  completion_tokens: number
}

export interface Rate {
  tokens: number
  tokensPerSecond: number
}

const bodyOf = (content: string, maxTokens: number, more: object = {}): string =>
  JSON.stringify({
    model: 'bench',
    messages: [{ role: 'user', content }],
    max_tokens: maxTokens,
    temperature: 0,
    ...more,
  })

/**
 * Sends `count` chats of `maxTokens` tokens at once and returns their total rate. Throws unless each response is 200.
 */
export async function chatsAtOnce(server: ModelServer, count: number, maxTokens: number): Promise<Rate> {
  const began = performance.now()
  const answers = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const body = bodyOf(`Hello number ${index}`, maxTokens)
      const answer = await server.pool.request({ method: 'POST', path: PATH, body })
      if (answer.statusCode !== 200)
        throw new Error(`a chat got ${answer.statusCode}: ${await answer.body.text()}`)
      return ((await answer.body.json()) as { usage: Usage }).usage.completion_tokens
    }),
  )
  const tokens = answers.reduce((sum, one) => sum + one, 0)
  return { tokens, tokensPerSecond: (1_000 * tokens) / (performance.now() - began) }
}

/**
 * Streams one chat and returns the milliseconds to the first text and the prompt's token count. Throws unless the
 * status is 200.
 */
export async function timeToFirstToken(
  server: ModelServer,
  prompt: string,
): Promise<{ promptTokens: number; ms: number }> {
  const body = bodyOf(prompt, 4, { stream: true, stream_options: { include_usage: true } })
  const began = performance.now()
  const answer = await server.pool.request({ method: 'POST', path: PATH, body })
  if (answer.statusCode !== 200)
    throw new Error(`a stream got ${answer.statusCode}: ${await answer.body.text()}`)
  let ms: number | undefined
  let promptTokens = 0
  for await (const line of createInterface({ input: Readable.from(answer.body) })) {
    if (!line.startsWith('data: {')) continue
    const { choices, usage } = JSON.parse(line.slice('data: '.length)) as {
      choices: { delta: { content?: string }; finish_reason?: string | null }[]
      usage?: Usage | null
    }
    const isText = choices.some(({ delta, finish_reason }) => delta.content || finish_reason)
    if (isText) ms ??= performance.now() - began
    promptTokens = usage?.prompt_tokens ?? promptTokens
  }
  if (ms === undefined) throw new Error('a stream ended without text')
  return { promptTokens, ms }
}
