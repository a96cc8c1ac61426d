import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import { openDatabase } from '../../db/database.ts'
import { CHAT_PATH } from '../../domain/chat/chat.ts'
import { eventually } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { processesOn } from '../support/servers/platform.ts'
import type { Process, TestPlatform } from '../support/servers/platform.ts'
import { checkBooks } from './work.ts'

export type Victim = Process | 'model server'

const PRELOAD = new URL('../support/servers/nodes/serve-fake-llm.ts', import.meta.url).href
/** The environment of a platform that serves the models imported by `importChatModel`. */
export const FAKE_LLM_ENV = { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import=${PRELOAD}` }

const STREAMS = 8
const WHOLES = 3
const LATE = 2
/**
 * Each of these chats takes more than 5 s, including the 2 s of the cold load. So all of them have started, and none
 * has ended, when their victim is killed.
 */
const STREAM = { stream: true, fake: { tokens: 350, gap_ms: 15 } }
const WHOLE = { fake: { delay_ms: 5_000 } }
const COLD = { stream: true, fake: { tokens: 200, gap_ms: 15 } }
/** Processes that a chat doesn't need once it has started. */
const BESIDE_THE_WAY: ReadonlySet<Victim> = new Set(['control', 'gate', 'temporal', 'postgres'])
const PRICE_MICRO = 10_000

/** The outcome of a chat as its client sees it: complete, failed, rejected, or cut off without an error. */
export type End = 'whole' | 'failed' | 'refused' | 'cut'

export interface Chat {
  kind: 'stream' | 'whole' | 'cold' | 'late'
  end: End
  taskId: string | undefined
  /** The error that the client got instead of a response. */
  errorText: string
}

export interface ChatModel {
  endpointId: string
  modelKey: string
}

/** Imports a language model that has a price and isn't loaded on any node yet. */
export async function importChatModel(
  platform: TestPlatform,
  name: string,
  weights: { load_s?: number } = {},
): Promise<ChatModel> {
  using folder = temporaryFolder()
  writeFileSync(join(folder.path, 'weights.json'), JSON.stringify(weights))
  const { base_url, operations_key, account_id: accountId } = platform.ready
  const client = new AdminClient(base_url, operations_key)
  const model = { name, path: folder.path, task: 'chat', profile: 'fake-llm', accountId }
  const { endpoint_id: endpointId, model_key: modelKey } = await importModel(client, model)
  // Imported models are free, which would leave no ledger entries to check.
  await using db = openDatabase(databaseUrl(platform), { max: 1 })
  await db.updateTable('endpoint').set({ price_micro: PRICE_MICRO }).where('id', '=', endpointId).execute()
  return { endpointId, modelKey }
}

/** Waits until the model answers, both as a whole response and as a stream. */
export async function chatsAgain(platform: TestPlatform, model: ChatModel): Promise<void> {
  for (const body of [{}, { stream: true }]) {
    await eventually('an answer', async () => {
      const { end } = await openChat(platform, model, 'whole', body).ended
      return end === 'whole' || undefined
    })
  }
}

/** Chats in flight with a loaded model, and one that is waiting for a model to load. */
export class ChatsInFlight {
  readonly #platform: TestPlatform
  readonly #models: readonly [warm: ChatModel, cold: ChatModel]
  readonly #since = new Date()
  readonly #open: ReturnType<typeof openChat>[]

  private constructor(platform: TestPlatform, warm: ChatModel, cold: ChatModel) {
    this.#platform = platform
    this.#models = [warm, cold]
    this.#open = [
      ...Array.from({ length: STREAMS }, () => openChat(platform, warm, 'stream', STREAM)),
      ...Array.from({ length: WHOLES }, () => openChat(platform, warm, 'whole', WHOLE)),
      openChat(platform, cold, 'cold', COLD),
    ]
  }

  /** Resolves when every stream has started. */
  static async begin(platform: TestPlatform, warm: ChatModel, cold: ChatModel): Promise<ChatsInFlight> {
    await chatsAgain(platform, warm)
    const chats = new ChatsInFlight(platform, warm, cold)
    await Promise.all(chats.#open.slice(0, STREAMS).map(({ begun }) => begun))
    return chats
  }

  /** Fails if a chat has already ended, because such a chat can't show the effect of the victim's death. */
  assertInFlight(): void {
    for (const { chat } of this.#open) assert.equal(chat.end, undefined, `a ${chat.kind} ended too early`)
  }

  /** Opens two more chats after the victim is killed. */
  askMore(): void {
    const [warm] = this.#models
    for (let i = 0; i < LATE; i++) this.#open.push(openChat(this.#platform, warm, 'late', { stream: true }))
  }

  /** Fails unless clients, tasks and ledger agree on the outcome of each chat, and the outcome is allowed. */
  async check(victim: Victim): Promise<void> {
    const chats = await Promise.all(this.#open.map(({ ended }) => ended))
    const tasks = await this.#endedTasks()
    for (const chat of chats) {
      const summary = `${chat.kind}: ${chat.end} (${chat.errorText})`
      assert.ok(expected(victim, chat.kind).includes(chat.end), summary)
      const status = chat.taskId && tasks.get(chat.taskId)
      if (chat.end === 'whole') assert.equal(status, 'succeeded', summary)
      else if (chat.kind === 'stream') assert.equal(status, 'failed', summary)
      else assert.notEqual(status, 'succeeded', summary)
    }
    const whole = chats.filter(({ end }) => end === 'whole')
    const succeeded = [...tasks.values()].filter((status) => status === 'succeeded')
    assert.equal(succeeded.length, whole.length, 'a client was charged for a chat that it did not receive')
    for (const taskId of tasks.keys()) await checkBooks(this.#platform, taskId)
  }

  /** Returns the tasks of these chats by id. */
  async #endedTasks(): Promise<Map<string, string>> {
    await using db = openDatabase(databaseUrl(this.#platform), { max: 1 })
    const ids = this.#models.map(({ endpointId }) => endpointId)
    const rows = await eventually('the end of every chat', async () => {
      const found = await db
        .selectFrom('task')
        .select(['id', 'status'])
        .where('endpoint_id', 'in', ids)
        .where('created_at', '>=', this.#since)
        .execute()
      return found.every(({ status }) => status === 'succeeded' || status === 'failed') ? found : undefined
    })
    return new Map(rows.map(({ id, status }) => [id, status]))
  }
}

/** Returns the outcomes that are allowed for a chat while this victim is away. */
function expected(victim: Victim, kind: Chat['kind']): End[] {
  // The request may be rejected before the database or the gateway is back.
  if (kind === 'late' && (victim === 'postgres' || victim === 'api')) return ['whole', 'refused', 'cut']
  if (BESIDE_THE_WAY.has(victim)) return ['whole']
  if (victim === 'api') return ['cut']
  if (kind === 'stream') return ['failed']
  // No token has been sent yet, so the platform retries, unless the only node is away for too long.
  return ['whole', 'refused']
}

/** Returns the server processes of a model: one, unless some were left behind. */
export function serversOf(dataDir: string, { modelKey }: ChatModel): number[] {
  const servers = processesOn(dataDir).filter(
    ({ command }) => command.includes(modelKey) && !command.includes('launcher.py'),
  )
  return servers.map(({ pid }) => pid)
}

/** Sends the request at once; the outcome is available when the chat has ended. */
export function openChat(
  { ready }: TestPlatform,
  { endpointId }: ChatModel,
  kind: Chat['kind'],
  body: { stream?: boolean; fake?: object },
) {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const chat: Partial<Chat> & Pick<Chat, 'kind'> = { kind }
  const ask = async () => {
    let text = ''
    try {
      const answer = await request(ready.base_url + CHAT_PATH, {
        method: 'POST',
        headers: { authorization: `Bearer ${ready.api_key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: endpointId, messages: [{ role: 'user', content: 'hi' }], ...body }),
      })
      chat.taskId = answer.headers['x-hearth-task-id']?.toString()
      for await (const part of answer.body.setEncoding('utf8')) {
        text += part
        begin()
      }
      const isWhole = body.stream ? text.endsWith('data: [DONE]\n\n') : text.endsWith('}')
      const isError = answer.statusCode !== 200 || /^data: \{"error"/m.test(text)
      if (answer.statusCode === 503) chat.end = 'refused'
      else if (isError) chat.end = 'failed'
      else chat.end = isWhole ? 'whole' : 'cut'
    } catch (err) {
      text = String(err)
      chat.end = 'cut'
    }
    begin()
    return { taskId: undefined, ...chat, end: chat.end, errorText: text.slice(-300) }
  }
  return { chat, begun, ended: ask() }
}

/** Returns the database URL of the gateway process. */
export function databaseUrl(platform: TestPlatform): string {
  const env = readFileSync(`/proc/${platform.pidOf('api')}/environ`, 'utf8').split('\0')
  const url = env.find((entry) => entry.startsWith('DATABASE_URL='))
  assert.ok(url)
  return url.slice('DATABASE_URL='.length)
}
