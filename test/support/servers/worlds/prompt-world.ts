import assert from 'node:assert/strict'
import { join } from 'node:path'
import { writeTinyGguf } from '../../../../embedded/demo/tiny-gguf.ts'
import type { PlanRequest } from '../../../../schemas/cohorts/plan.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import type { AnyBody } from '../api.ts'
import type { TestNodeOptions } from '../nodes/node.ts'
import { CohortCaller } from './cohort-caller.ts'
import { type InferenceWorld, startInferenceWorld, type WorldNode } from './inference-world.ts'

/** A prompt whose state is too large to be passed through a database row. */
export const PROMPT = [{ role: 'user', content: 'The quick brown fox jumps over the lazy dog. '.repeat(30) }]
const SAYS = ['Read', ' here', ' and', ' continued', ' there']
export const REPLY = SAYS.join('')
const GREEDY = { max_tokens: 8, temperature: 0 }

interface PromptOptions {
  prefill?: readonly { nodeId: string }[]
  decode?: readonly { nodeId: string }[]
  edge?: object
  stages?: { prefill?: object; decode?: object }
  /** A different model from the world's. */
  endpointId?: string
}

/** Nodes with llama.cpp, where one stage reads a prompt and another stage continues from it. */
export class PromptWorld implements AsyncDisposable {
  readonly on: InferenceWorld
  readonly cohorts: CohortCaller
  readonly model: ImportedModel
  readonly #folder: ReturnType<typeof temporaryFolder>

  private constructor(
    on: InferenceWorld,
    { model, folder }: { model: ImportedModel; folder: ReturnType<typeof temporaryFolder> },
  ) {
    this.on = on
    this.cohorts = new CohortCaller(on)
    this.model = model
    this.#folder = folder
  }

  static async start(): Promise<PromptWorld> {
    const on = await startInferenceWorld()
    const folder = temporaryFolder()
    const path = join(folder.path, 'model.gguf')
    await writeTinyGguf(path, { answer: SAYS, context: 4_096 })
    return new PromptWorld(on, { model: await on.import({ name: 'prompts', path, task: 'chat' }), folder })
  }

  /** Starts a node with the model loaded. */
  async node(options: TestNodeOptions = {}): Promise<WorldNode> {
    const node = await this.on.node({
      realCatalog: true,
      memoryMb: 4_000,
      accountId: this.on.accountId,
      ...options,
    })
    await node.parts.models.load(this.model.model_key)
    return node
  }

  planOf({ prefill, decode, edge = {}, stages = {}, endpointId }: PromptOptions = {}): PlanRequest {
    const on = (nodes: PromptOptions['decode']) =>
      nodes && { placement: { node_ids: nodes.map(({ nodeId }) => nodeId) } }
    const endpoint_id = endpointId ?? this.model.endpoint_id
    return {
      name: 'prefill and decode',
      stages: [
        {
          stage_id: 'prefill',
          endpoint_id,
          operation: 'prefill',
          input: { messages: PROMPT },
          ...on(prefill),
          ...stages.prefill,
        },
        {
          stage_id: 'decode',
          endpoint_id,
          operation: 'decode',
          input: GREEDY,
          ...on(decode),
          ...stages.decode,
        },
      ],
      edges: [
        {
          edge_id: 'cache',
          from: { stage_id: 'prefill' },
          to: { stage_id: 'decode', path: '/cache' },
          space: { source: 'kv', target: 'kv' },
          ...edge,
        },
      ],
      outputs: [{ name: 'answer', stage_id: 'decode', path: '/choices/0/message/content' }],
    }
  }

  /** Waits until a run has succeeded; returns its hand-over. */
  async succeeded(run: { task_id: string; cohort_id: string }): Promise<{ seen: AnyBody; edge: AnyBody }> {
    const seen = await this.cohorts.ended(run)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal((await this.cohorts.result(run)).answer, REPLY)
    return { seen, edge: seen.edges[0] }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.on[Symbol.asyncDispose]()
    this.#folder[Symbol.dispose]()
  }
}
