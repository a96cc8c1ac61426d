import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { eventsIn } from '../../platform/event-stream.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { ROOT } from '../paths.ts'
import { writeTinyGguf } from './tiny-gguf.ts'

/** A complete response, with the time to its first token. */
export interface Chat {
  text: string
  words: number
  firstMs: number
}

interface Platform {
  base_url: string
  api_key: string
  operations_key: string
  account_id: string
}

/** Writes a small language model on this machine and imports it with the command that operators use. */
export async function importTinyModel({ base_url, operations_key, account_id }: Platform): Promise<string> {
  const name = `tiny-${Date.now().toString(36)}`
  const folder = await mkdtemp(join(tmpdir(), 'hearth-demo-'))
  try {
    const path = join(folder, 'tiny.gguf')
    await writeTinyGguf(path)
    const args = [
      'cli/hearth.ts',
      'models',
      'import',
      '--name',
      name,
      '--path',
      path,
      '--account',
      account_id,
    ]
    const env = { ...process.env, HEARTH_BASE_URL: base_url, HEARTH_OPERATIONS_KEY: operations_key }
    await runProgram(process.execPath, args, { cwd: ROOT, env })
    return name
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Sends a chat over the OpenAI-compatible API and passes on its text as it arrives. */
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
  if (statusCode !== 200) throw new Error(`the model answered ${statusCode}: ${await body.text()}`)
  const chat: Chat = { text: '', words: 0, firstMs: 0 }
  for await (const text of wordsOf(body)) {
    chat.firstMs ||= performance.now() - started
    chat.text += text
    chat.words += 1
    onText(text)
  }
  if (chat.words === 0) throw new Error('the model said nothing')
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
