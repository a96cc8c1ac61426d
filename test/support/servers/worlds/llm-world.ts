import { join } from 'node:path'
import { AdminClient } from '../../../../cli/admin-client.ts'
import { importModel } from '../../../../cli/commands/models.ts'
import { type TinyGguf, writeTinyGguf } from '../../../../embedded/demo/tiny-gguf.ts'
import { ensurePackages } from '../../../../node-runtime/environments/npm-env.ts'
import { readConfig } from '../../../../platform/config.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { makeTinyLlm, type TinyLlm } from '../../builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import { requireInstalled } from '../../skip.ts'
import { type Answer, OPERATIONS_KEY, startApi, type TestApi } from '../api.ts'
import { startNode, type TestNode, until } from '../nodes/node.ts'

/** For `before`: skips the suite, with the reason, if llama.cpp can't be installed. */
export async function requireLlamaCpp(this: Mocha.Context): Promise<void> {
  this.timeout(600_000)
  const install = () => ensurePackages('llamacpp', { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {} })
  await requireInstalled(this, process.env.HEARTH_TEST_LLAMACPP_MISSING, install)
}

/** A gateway and a node that serve real language models created for the test. */
export class LlmWorld implements AsyncDisposable {
  readonly api: TestApi
  readonly node: TestNode
  readonly caller: { accountId: string; key: string }
  readonly #folder = temporaryFolder()

  private constructor(api: TestApi, node: TestNode, caller: { accountId: string; key: string }) {
    this.api = api
    this.node = node
    this.caller = caller
  }

  static async start({ memoryMb = 6_000 } = {}): Promise<LlmWorld> {
    const api = await startApi()
    const caller = await api.account()
    const { accountId } = caller
    const node = await startNode(api, { realCatalog: true, memoryMb, accountId })
    return new LlmWorld(api, node, caller)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
    await this.api[Symbol.asyncDispose]()
    this.#folder[Symbol.dispose]()
  }

  /** Returns the local path of a model before its import. */
  pathOf(name: string): string {
    return join(this.#folder.path, name)
  }

  /** Imports a tiny model in either form as an operator does; `says` are the pieces of its only answer. */
  async import(
    name: string,
    form: 'gguf' | 'folder',
    says?: readonly string[],
    like: TinyLlm = {},
  ): Promise<ImportedModel> {
    // This GGUF has letters as tokens, so a tool description needs a longer context.
    if (form === 'gguf') return this.importGguf(name, says && { answer: says, context: 4_096 })
    const path = this.pathOf(name)
    await makeTinyLlm(path, says ? { ...like, says } : like)
    return this.#importFrom(name, path)
  }

  /** Imports a tiny GGUF as an operator does. */
  async importGguf(name: string, tiny?: TinyGguf): Promise<ImportedModel> {
    const path = this.pathOf(`${name}.gguf`)
    await writeTinyGguf(path, tiny)
    return this.#importFrom(name, path)
  }

  #importFrom(name: string, path: string): Promise<ImportedModel> {
    const client = new AdminClient(this.api.baseUrl, OPERATIONS_KEY)
    return importModel(client, { name, path, task: 'chat', accountId: this.caller.accountId })
  }

  /** Loads a model on the node, and waits until the gateway has its report. */
  async load({ model_key }: ImportedModel): Promise<void> {
    await this.node.parts.models.load(model_key)
    await until(() => this.api.services.links.placement.count(model_key).warm === 1)
  }

  chat(model: string, body: object): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.caller.key}` }
    return this.api.call('POST', '/v1/chat/completions', { headers, body: { model, ...body } })
  }
}

/** Parses the chunks of a stream; the last one is the string `[DONE]`. */
export function chunksOf(text: string): unknown[] {
  const data = text.split('\n\n').filter((event) => event.startsWith('data: '))
  return data.map((event) => {
    const payload = event.slice('data: '.length)
    return payload === '[DONE]' ? payload : (JSON.parse(payload) as unknown)
  })
}
