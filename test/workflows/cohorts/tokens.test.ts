import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const GREEDY = { max_tokens: 12, temperature: 0, return_token_ids: true }

describe('a token edge', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  let world: InferenceWorld
  let model: ImportedModel

  before(requireLlm)
  before(async () => {
    world = await startInferenceWorld()
    const path = join(folder.path, 'model')
    await makeTinyLlm(path, { layers: 2, hidden: 64, positions: 512 })
    model = await world.import({ name: 'tiny-tokens', path, task: 'chat' })
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const call = async (path: string, body: object): Promise<AnyBody> => {
    const answer = await world.api.call('POST', `/api/v1${path}`, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      body,
    })
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body
  }
  const planOf = (path: string): PlanRequest => ({
    stages: [
      {
        stage_id: 'first',
        endpoint_id: model.endpoint_id,
        input: { messages: [{ role: 'user', content: 'The quick brown fox' }], ...GREEDY },
        max_attempts: 1,
      },
      { stage_id: 'second', endpoint_id: model.endpoint_id, input: GREEDY },
    ],
    edges: [
      {
        edge_id: 'ids',
        from: { stage_id: 'first', path },
        to: { stage_id: 'second', path: '/prompt' },
        space: { source: 'tokens', target: 'tokens' },
      },
    ],
    outputs: [
      { name: 'first', stage_id: 'first' },
      { name: 'second', stage_id: 'second' },
    ],
  })
  const run = async (plan: PlanRequest): Promise<AnyBody> => {
    const { task_id } = await call('/cohorts:run', { plan, input: {} })
    await until(async () => ['succeeded', 'failed'].includes((await world.task(task_id)).status), 240_000)
    return world.task(task_id)
  }

  it('hands token ids from one model to another with the same tokenizer, which reads them unchanged', async () => {
    await using _control = await world.control()
    await using _node = await world.node({ realCatalog: true, memoryMb: 4_000, accountId: world.accountId })
    const plan = planOf('/choices/0/token_ids')
    const [planned] = (await call('/cohorts:plan', plan)).edges
    assert.deepEqual([planned.kind, planned.transport], ['tokens', 'inline'])

    const { status, result, error } = await run(plan)

    assert.equal(status, 'succeeded', error)
    const ids = result.first.choices[0].token_ids
    assert.ok(ids.length > 0 && ids.every((id: unknown) => Number.isInteger(id)), JSON.stringify(ids))
    assert.deepEqual(result.second.prompt_token_ids, ids)
    assert.equal(result.second.usage.prompt_tokens, ids.length)

    const text = await run(planOf('/choices/0/message/content'))
    assert.equal(text.status, 'failed')
    assert.match(text.error, /must be a non-empty list of token ids/)
  })

  it('is planned only between equal tokenizers', async () => {
    await using _node = await world.node({ realCatalog: true, memoryMb: 4_000, accountId: world.accountId })
    const path = join(folder.path, 'other')
    await makeTinyLlm(path, { layers: 2, hidden: 64, positions: 512 })
    const tokenizer = join(path, 'tokenizer.json')
    await writeFile(tokenizer, `${await readFile(tokenizer, 'utf8')}\n`)
    const other = await world.import({ name: 'other-tokens', path, task: 'chat' })
    const { stages, ...rest } = planOf('/choices/0/token_ids')
    const plan = await call('/cohorts:plan', {
      ...rest,
      stages: stages.map((stage) =>
        stage.stage_id === 'second' ? { ...stage, endpoint_id: other.endpoint_id } : stage,
      ),
    })
    assert.deepEqual(
      plan.reasons.map(({ code, edge_id }: AnyBody) => [code, edge_id]),
      [['space_mismatch', 'ids']],
    )
    assert.match(plan.reasons[0].message, /tokenizers/)
  })
})
