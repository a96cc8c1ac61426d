import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import type { EndpointRow, NewEndpoint } from '../../../db/tables/models.ts'
import { CHAT_PATH } from '../../../domain/chat/chat.ts'
import { buildEndpoint } from '../builders/build-endpoint.ts'
import { type AnyBody, type Answer, startApi, type TestApi, type TestApiOptions } from './api.ts'
import { addModel, startNode, type TestNode, type TestNodeOptions, until } from './nodes/node.ts'

const FAKE_LLM = fileURLToPath(new URL('nodes/fake-llm.ts', import.meta.url))
/** Starting Node accounts for most of a fake model server's load time. */
export const FAKE_LLM_SERVER = { command: [process.execPath, FAKE_LLM, '{model_dir}'], inferPath: CHAT_PATH }

type Weights = Parameters<typeof addModel>[1] & { config?: object; memoryMb?: number }

export interface FakeStats {
  requests: number
  in_flight: number
  aborted: number
  /** The number of requests that contained an account's memory. */
  remembered: number
  /** The last request as the server received it. */
  last: string
}

/** A gateway, a real node with fake language models, and an account with endpoints for them. */
export class ChatApi implements AsyncDisposable {
  readonly api: TestApi
  readonly node: TestNode
  readonly caller: { accountId: string; key: string }

  constructor(api: TestApi, node: TestNode, caller: { accountId: string; key: string }) {
    this.api = api
    this.node = node
    this.caller = caller
  }

  static async start(options: TestApiOptions = {}): Promise<ChatApi> {
    const api = await startApi(options)
    return new ChatApi(api, await startChatNode(api), await api.account())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
    await this.api[Symbol.asyncDispose]()
  }

  /** Creates an endpoint for a model that is loaded on these nodes, by default on the first. */
  async warm(
    overrides: Partial<NewEndpoint> = {},
    nodes: readonly TestNode[] = [this.node],
    weights: Partial<Weights> = {},
  ): Promise<EndpointRow> {
    const endpoint = await this.cold({ name: 'fake', ...weights }, overrides)
    for (const { parts } of nodes) await parts.models.load(endpoint.model_key)
    const { placement } = this.api.services.links
    await until(() => placement.count(endpoint.model_key).warm === nodes.length)
    return endpoint
  }

  /** Creates an endpoint for a model that isn't on any node. */
  async cold(weights: Weights, overrides: Partial<NewEndpoint> = {}): Promise<EndpointRow> {
    const { config, memoryMb, ...rest } = weights
    const needs = { ...(config && { config }), ...(memoryMb !== undefined && { memoryMb }) }
    const modelKey = await addModel(this.api, rest, needs)
    const { db } = this.api.database
    const version = await db
      .selectFrom('model_version')
      .select('id')
      .where('model_key', '=', modelKey)
      .executeTakeFirstOrThrow()
    return buildEndpoint(db, this.caller.accountId, {
      version_id: version.id,
      model_key: modelKey,
      runtime_profile: 'tiny',
      task_type: 'chat',
      ...overrides,
    })
  }

  /** Records measured load times of a model on a kind of node. */
  async measured(
    { model_key }: Pick<EndpointRow, 'model_key'>,
    start_state: 'cold' | 'cached',
    mean_ms: number,
    hardware: 'cpu' | 'gpu' = 'cpu',
  ): Promise<void> {
    const sample = { model_key, start_state, hardware, mean_ms, samples: 1 }
    await this.api.database.db.insertInto('load_time').values(sample).execute()
  }

  chat(model: string, body: object = {}, key = this.caller.key): Promise<Answer<AnyBody>> {
    return this.api.call('POST', CHAT_PATH, {
      body: { model, messages: [{ role: 'user', content: 'hi' }], ...body },
      headers: { authorization: `Bearer ${key}` },
    })
  }

  /** Returns the task of a response. */
  async task(answer: Answer): Promise<AnyBody> {
    const id = String(answer.headers['x-hearth-task-id'])
    const { db } = this.api.database
    return db.selectFrom('task').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /** Returns the statistics of a model's server on a node. */
  async stats({ model_key }: EndpointRow, node = this.node): Promise<FakeStats> {
    using use = node.parts.models.use(model_key)
    if (!use) throw new Error('the model is not loaded')
    const { body } = await use.server.pool.request({ method: 'GET', path: '/stats' })
    return (await body.json()) as FakeStats
  }
}

/** Starts another node with fake language models. */
export const startChatNode = (api: TestApi, options: TestNodeOptions = {}): Promise<TestNode> =>
  startNode(api, { concurrency: 256, server: FAKE_LLM_SERVER, ...options })

/** Opens an event stream and returns its events as they arrive. */
export async function openStream(
  { api, caller }: { api: Pick<TestApi, 'baseUrl'>; caller: Pick<ChatApi['caller'], 'key'> },
  model: string,
  body: object = {},
  signal?: AbortSignal,
) {
  return request(api.baseUrl + CHAT_PATH, {
    method: 'POST',
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'hi' }], ...body }),
    ...(signal && { signal }),
  })
}

export interface FollowedStream {
  /** The data of the events so far. */
  readonly events: readonly string[]
  /** Settles at the end: true if the stream was complete, false if its connection broke. */
  readonly isWhole: Promise<boolean>
}

/** Reads a stream as it arrives. */
export function follow({ body }: Awaited<ReturnType<typeof openStream>>): FollowedStream {
  let text = ''
  const read = async () => {
    for await (const chunk of body) text += String(chunk)
    return true
  }
  return {
    get events() {
      return eventsOf(text)
    },
    isWhole: read().catch(() => false),
  }
}

/** Returns the data of every event of a stream. */
export const eventsOf = (text: string): string[] =>
  text.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? event.slice('data: '.length) : []))
