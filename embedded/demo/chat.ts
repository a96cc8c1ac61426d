import { join } from 'node:path'
import { request } from 'undici'
import { eventsIn } from '../../platform/event-stream.ts'
import { importMadeModel, type ImportTarget } from './import-model.ts'
import { writeTinyGguf } from './tiny-gguf.ts'

/** A complete response, with the time to its first token. */
export interface Chat {
  text: string
  words: number
  firstMs: number
}

interface Platform extends ImportTarget {
  api_key: string
}

/** Writes a small language model on this machine and imports it. */
export function importTinyModel(platform: Platform): Promise<string> {
  return importMadeModel(platform, {
    name: 'tiny',
    task: 'chat',
    async write(folder) {
      const path = join(folder, 'tiny.gguf')
      await writeTinyGguf(path)
      return path
    },
  })
}

/** Sends a chat over the OpenAI-compatible API and passes on the response text as it arrives. */
export async function chat(
  { base_url, api_key }: Platform,
  question: { model: string; content: string },
  onText: (text: string) => void,
): Promise<Chat> {
  const started = performance.now()
  const { statusCode, body } = await request(`${base_url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: question.model,
      messages: [{ role: 'user', content: question.content }],
      stream: true,
    }),
    headersTimeout: 0,
  })
  if (statusCode !== 200) throw new Error(`the model returned ${statusCode}: ${await body.text()}`)
  const chat: Chat = { text: '', words: 0, firstMs: 0 }
  for await (const text of wordsOf(body)) {
    chat.firstMs ||= performance.now() - started
    chat.text += text
    chat.words += 1
    onText(text)
  }
  if (chat.words === 0) throw new Error('the model returned an empty response')
  return chat
}

interface Chunk {
  choices?: { delta?: { content?: string } }[]
  error?: { message: string }
}

/** Yields the text of each event of a stream. */
async function* wordsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  for await (const data of eventsIn(body)) {
    if (data === '[DONE]') continue
    const { choices, error } = JSON.parse(data) as Chunk
    if (error) throw new Error(error.message)
    const text = choices?.[0]?.delta?.content
    if (text) yield text
  }
}
