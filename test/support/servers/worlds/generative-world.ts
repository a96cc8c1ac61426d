import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { uploadInput } from '../../builders/forms.ts'
import { type TinyGenerative, tinyGeneratives } from '../../builders/models/tiny-generative.ts'
import type { AnyBody } from '../api.ts'
import { type InferenceWorld, startInferenceWorld, type WorldNode } from './inference-world.ts'

/** A gateway, Temporal and a node that serves real generative models with random weights. */
export class GenerativeWorld implements AsyncDisposable {
  readonly on: InferenceWorld
  readonly node: WorldNode
  readonly #stack: AsyncDisposableStack

  private constructor(on: InferenceWorld, node: WorldNode, stack: AsyncDisposableStack) {
    this.on = on
    this.node = node
    this.#stack = stack
  }

  static async start(): Promise<GenerativeWorld> {
    await using stack = new AsyncDisposableStack()
    const on = stack.use(await startInferenceWorld())
    stack.use(await on.control())
    const { accountId } = on
    const node = stack.use(await on.node({ realCatalog: true, memoryMb: 12_000, accountId }))
    return new GenerativeWorld(on, node, stack.move())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  /** Imports a model as an operator does. */
  async import(name: string, task: string, model: TinyGenerative): Promise<ImportedModel> {
    const [path = ''] = await tinyGeneratives([model])
    return this.on.import({ name, path, task })
  }

  /** Calls an endpoint and waits for its result. */
  async ask(name: string, input: object): Promise<AnyBody> {
    const { api, key } = this.on
    const body = { input, sync_timeout_s: 300 }
    return (await api.call('POST', `/api/builder/v1/endpoints/${name}/infer`, { key, body })).body
  }

  /** Queues a request, and returns the id of its task. */
  async queue(name: string, input: object): Promise<string> {
    const { api, key } = this.on
    const path = `/api/builder/v1/endpoints/${name}/infer:async`
    return (await api.call('POST', path, { key, body: { input } })).body.task_id as string
  }

  /** Uploads a file, and returns the URL for an input. */
  async upload(name: string, bytes: Uint8Array<ArrayBuffer>, type = 'image/png'): Promise<string> {
    return (await uploadInput(this.on, name, new File([bytes], 'file', { type }))).body.input_url as string
  }

  /** Returns the keys of all files that tasks created. */
  async outputs(): Promise<string[]> {
    const keys: string[] = []
    for await (const { key } of this.on.api.services.objects.list('tasks/')) keys.push(key)
    return keys
  }
}
