import assert from 'node:assert/strict'
import { join } from 'node:path'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

/** The model of these tests: the cache for a prompt of 2,048 tokens takes several megabytes. */
const FORM = { layers: 4, hidden: 128, positions: 4_096 }
const MESSAGES = [{ role: 'user', content: 'The quick brown fox jumps over the lazy dog. '.repeat(150) }]
const GREEDY = { max_tokens: 32, temperature: 0 }

describe('a prompt prefilled on one node and decoded on another', function () {
  this.timeout(600_000)
  /** Aborts whatever a lost node is still waiting for, so that the process can exit. */
  const over = new AbortController()
  after(() => over.abort())
  const folder = temporaryFolder()
  let world: InferenceWorld
  let model: ImportedModel

  before(requireLlm)
  before(async () => {
    world = await startInferenceWorld()
    const path = join(folder.path, 'model')
    await makeTinyLlm(path, FORM)
    model = await world.import({ name: 'tiny-prompts', path, task: 'chat' })
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const call = (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<{ status: number; body: AnyBody }> =>
    world.api.call(method, path, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
  const summary = async (taskId: string) => (await call('GET', `/api/v1/tasks/${taskId}/cohort`)).body
  async function ended(taskId: string): Promise<AnyBody> {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(taskId)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    }, 120_000)
    return seen
  }
  const node = () => world.node({ realCatalog: true, memoryMb: 4_000, accountId: world.accountId })

  const planOf = (decode: readonly WorldNode[], more: object = {}): PlanRequest => ({
    name: 'prefill and decode',
    stages: [
      {
        stage_id: 'prefill',
        endpoint_id: model.endpoint_id,
        operation: 'prefill',
        input: { messages: MESSAGES },
      },
      {
        stage_id: 'decode',
        endpoint_id: model.endpoint_id,
        operation: 'decode',
        input: GREEDY,
        placement: { node_ids: decode.map(({ nodeId }) => nodeId) },
      },
    ],
    edges: [
      {
        edge_id: 'cache',
        from: { stage_id: 'prefill' },
        to: { stage_id: 'decode', path: '/cache' },
        space: { source: 'kv', target: 'kv' },
        ...more,
      },
    ],
    outputs: [{ name: 'answer', stage_id: 'decode', path: '/choices/0/message/content' }],
  })
  const placed = (plan: PlanRequest, producer: WorldNode): PlanRequest => ({
    ...plan,
    stages: plan.stages.map((stage) =>
      stage.stage_id === 'prefill' ? { ...stage, placement: { node_ids: [producer.nodeId] } } : stage,
    ),
  })
  async function run(plan: PlanRequest): Promise<string> {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input: {} })
    assert.equal(status, 202, JSON.stringify(body))
    return body.task_id
  }
  /** Returns the text that a single node generates, and the number of tokens it reads and writes. */
  async function undivided(): Promise<{ answer: string; read: number; written: number }> {
    const headers = { authorization: `Bearer ${world.key}` }
    const body = { model: model.endpoint_id, messages: MESSAGES, ...GREEDY }
    const answer = await world.api.call('POST', '/v1/chat/completions', { headers, body })
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    const { choices, usage } = answer.body as AnyBody
    return {
      answer: choices[0].message.content,
      read: usage.prompt_tokens,
      written: usage.completion_tokens,
    }
  }
  const tokensOf = ({ cohort_id }: AnyBody) =>
    world.api.database.db
      .selectFrom('cohort_stage')
      .select(['name', 'tokens_in', 'tokens_out'])
      .where('cohort_id', '=', cohort_id)
      .orderBy('position')
      .execute()
  async function answerOf(taskId: string): Promise<string> {
    return (await world.task(taskId)).result.answer
  }

  it('yields the same text as a single node over every transport', async () => {
    await using _control = await world.control()
    await using a = await node()
    await using b = await node()
    await Promise.all([a, b].map(({ parts }) => parts.models.load(model.model_key)))
    const wanted = await undivided()

    for (const transport of ['direct', 'relay', 'local'] as const) {
      const plan = placed(planOf([transport === 'local' ? a : b], { transports: [transport] }), a)
      const task = await run(plan)
      const seen = await ended(task)

      assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
      const [edge] = seen.edges
      assert.deepEqual([edge.state, edge.transport, edge.attempt], ['consumed', transport, 1])
      assert.ok(edge.bytes > 1_000_000)
      assert.equal(await answerOf(task), wanted.answer)
      assert.deepEqual(await tokensOf(seen), [
        { name: 'prefill', tokens_in: wanted.read, tokens_out: 0 },
        { name: 'decode', tokens_in: 0, tokens_out: wanted.written },
      ])
      // Neither node stores any payload.
      await until(() => [a, b].every(({ parts }) => parts.edges.store.usedBytes === 0))
    }
  })

  it('is prefilled only once, even if the node that was to decode it is lost before it starts', async () => {
    await using _control = await world.control()
    await using a = await node()
    await using b = await node()
    await using c = await node()
    await Promise.all([a, b, c].map(({ parts }) => parts.models.load(model.model_key)))
    const wanted = await undivided()
    const lost = Promise.withResolvers<WorldNode>()
    for (const one of [b, c]) loseAtConsume(one, lost, over.signal)

    const task = await run(placed(planOf([b, c], { transports: ['direct'] }), a))
    const first = await lost.promise
    await first[Symbol.asyncDispose]()
    const seen = await ended(task)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt }: AnyBody) => [stage_id, attempt]),
      [
        ['prefill', 1],
        ['decode', 2],
      ],
    )
    const [used] = seen.edges
    assert.deepEqual(
      [used.state, used.attempt, used.consumer_node_id],
      ['consumed', 2, (first === b ? c : b).nodeId],
    )
    assert.equal(await answerOf(task), wanted.answer)
  })
})

/** The first node that receives the bytes stops responding when it is about to consume them. */
function loseAtConsume(node: WorldNode, lost: PromiseWithResolvers<WorldNode>, over: AbortSignal): void {
  const { control } = node.parts
  const edge = control.edge.bind(control)
  let isFirst: boolean | undefined
  void lost.promise.then((one) => (isFirst = one === node))
  control.edge = (async (verb: 'consume', ...rest: [never, never]) => {
    if (verb !== 'consume') return edge(verb, ...rest)
    lost.resolve(node)
    await lost.promise
    return isFirst ? unlessAborted(new Promise<never>(() => {}), over) : edge(verb, ...rest)
  }) as typeof control.edge
}
