import type { EndpointRow } from '../../../db/tables/models.ts'
import { buildEndpoint } from '../builders/build-endpoint.ts'
import { type AnyBody, type Answer, startApi, type TestApi, type TestApiOptions } from './api.ts'
import { addModel, startNode, type TestNode, until } from './nodes/node.ts'

const BUILDER = '/api/builder/v1'
const INPUT_SCHEMA = JSON.stringify({
  type: 'object',
  properties: { instances: { type: 'array', items: { type: ['number', 'string'] } } },
  'x-unknown-keyword': true,
})

/** A gateway, a real node with one loaded model, and an account with an endpoint for it. */
export class InferenceApi implements AsyncDisposable {
  readonly api: TestApi
  readonly node: TestNode
  readonly caller: { accountId: string; key: string }

  private constructor(api: TestApi, node: TestNode, caller: { accountId: string; key: string }) {
    this.api = api
    this.node = node
    this.caller = caller
  }

  static async start(options: TestApiOptions = {}): Promise<InferenceApi> {
    const api = await startApi(options)
    return new InferenceApi(api, await startNode(api), await api.account())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
    await this.api[Symbol.asyncDispose]()
  }

  /** Adds a model and loads it on the node. */
  async loadedModel(): Promise<string> {
    const modelKey = await addModel(this.api, { name: 'echo' })
    await this.node.parts.models.load(modelKey)
    await until(() => this.api.services.links.placement.count(modelKey).warm === 1)
    return modelKey
  }

  async endpointOver(modelKey: string, overrides: object = {}): Promise<EndpointRow> {
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
      input_schema: INPUT_SCHEMA,
      ...overrides,
    })
  }

  infer(endpoint: string, body: object, key = this.caller.key): Promise<Answer<AnyBody>> {
    return this.api.call('POST', `${BUILDER}/endpoints/${endpoint}/infer`, { key, body })
  }

  task(id: string, key = this.caller.key): Promise<Answer<AnyBody>> {
    return this.api.call('GET', `${BUILDER}/tasks/${id}`, { key })
  }

  cancel(id: string, key = this.caller.key): Promise<Answer<AnyBody>> {
    return this.api.call('POST', `${BUILDER}/tasks/${id}:cancel`, { key })
  }

  /** Counts the tasks of an endpoint. */
  async count(endpointId: string): Promise<number> {
    const { n } = await this.api.database.db
      .selectFrom('task')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .where('endpoint_id', '=', endpointId)
      .executeTakeFirstOrThrow()
    return n
  }

  /** Waits until the node's models have this many requests in flight. */
  inFlight(count: number, timeoutMs?: number): Promise<void> {
    return until(() => {
      const under = this.node.parts.models.report().reduce((sum, { in_flight }) => sum + in_flight, 0)
      return under === count
    }, timeoutMs)
  }
}
