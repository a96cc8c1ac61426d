import assert from 'node:assert/strict'
import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import {
  embeddingSpace,
  evaluate,
  EVALUATOR,
  TOKEN_HEADER,
} from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('structured runs', () => {
  let api: TestApi
  let accountId: string
  let body: ReturnType<typeof request>
  before(async () => {
    api = await startApi()
    ;({ accountId } = await api.account())
    body = request(await encoder(4), await encoder(6), await dataset(3_000), await classifier())
  })
  after(() => api[Symbol.asyncDispose]())

  async function encoder(dimensions: number): Promise<string> {
    const { db } = api.database
    const { id, model_key } = await buildVersion(db, accountId)
    await buildEndpoint(db, accountId, { version_id: id, model_key, task_type: 'embeddings' })
    const weights_digest = id.replaceAll('-', '').repeat(2)
    const spaces = [
      embeddingSpace(dimensions, { weights_digest }),
      { name: 'text', role: 'accepts', kind: 'text' },
    ]
    await evaluate(api, 'model-spaces', { model_config_id: id, spaces })
    return id
  }

  async function dataset(rows: number): Promise<string> {
    const id = newId()
    const object_key = `datasets/${accountId}/${id}/data.jsonl`
    await api.services.objects.put(object_key, Buffer.from('{}'), { contentType: 'application/json' })
    await api.database.db
      .insertInto('dataset')
      .values({
        id,
        account_id: accountId,
        dataset_name: 'anchors',
        description: '',
        status: 'ready',
        storage_format: 'jsonl',
        visibility: 'private',
        num_samples: rows,
        columns: JSON.stringify([{ name: 'text', type: 'string' }]),
        object_key,
      })
      .execute()
    return id
  }

  const classifier = async (columns = 6) => {
    const names = Array.from({ length: columns }, (_, i) => [`x${i}`, 0] as const)
    const { id } = await buildEndpoint(api.database.db, accountId, {
      example_input: JSON.stringify({ instances: [Object.fromEntries(names)] }),
      example_output: JSON.stringify({ predictions: [{ label: 'a' }] }),
    })
    return id
  }

  const request = (source: string, target: string, dataset_id: string, endpoint_id: string) => ({
    source: { model_config_id: source, space: 'output' },
    target: { model_config_id: target, space: 'output' },
    consumer: { endpoint_id, input_path: '/instances/0', answer_path: '/predictions/0/label' },
    anchors: { dataset_id, text_field: 'text' },
  })
  const start = (change: object = {}) => evaluate(api, 'structured-runs', { ...body, ...change })

  it('are queued with their workflow, and can be read', async () => {
    const { status, body: accepted } = await start()

    assert.deepEqual([status, accepted.status], [202, 'queued'])
    assert.equal(accepted.workflow_id, `evaluation/${accepted.run_id}`)
    const read = await api.call('GET', `${EVALUATOR}/structured-runs/${accepted.run_id}`, {
      headers: TOKEN_HEADER,
    })
    const { metric, threshold, reasons, evidence_id, started_at } = read.body
    assert.deepEqual(
      [metric, threshold, reasons, evidence_id, started_at],
      ['consumer_agreement', 0.9, [], null, null],
    )
    const promised = await api.database.db
      .selectFrom('workflow_start')
      .select('workflow')
      .where('workflow_id', '=', accepted.workflow_id)
      .execute()
    assert.deepEqual(promised, [{ workflow: 'structuredEvaluation' }])
  })

  it('are evaluated by retrieval when no consumer is given', async () => {
    const { body: accepted } = await start({ consumer: undefined })

    const path = `${EVALUATOR}/structured-runs/${accepted.run_id}`
    assert.equal((await api.call('GET', path, { headers: TOKEN_HEADER })).body.metric, 'retrieval_overlap')
  })

  const faults: [string, () => Promise<object> | object, string[]][] = [
    [
      'an unknown model',
      () => ({ source: { ...body.source, model_config_id: newId() } }),
      ['source', 'model_config_id'],
    ],
    ['an unknown space', () => ({ target: { ...body.target, space: 'other' } }), ['target', 'space']],
    ['a text space', () => ({ source: { ...body.source, space: 'text' } }), ['source', 'space']],
    ['the same space twice', () => ({ target: body.source }), ['target']],
    [
      'an unknown dataset',
      () => ({ anchors: { ...body.anchors, dataset_id: newId() } }),
      ['anchors', 'dataset_id'],
    ],
    [
      'an unknown column',
      () => ({ anchors: { ...body.anchors, text_field: 'words' } }),
      ['anchors', 'text_field'],
    ],
    [
      'more texts than rows',
      () => ({ anchors: { ...body.anchors, fit_count: 2_001 } }),
      ['anchors', 'fit_count'],
    ],
    [
      'an unknown consumer',
      () => ({ consumer: { ...body.consumer, endpoint_id: newId() } }),
      ['consumer', 'endpoint_id'],
    ],
    [
      'an input path that does not accept a vector',
      () => ({ consumer: { ...body.consumer, input_path: '/x' } }),
      ['consumer', 'input_path'],
    ],
    [
      'other columns',
      async () => ({ consumer: { ...body.consumer, endpoint_id: await classifier(5) } }),
      ['consumer', 'input_path'],
    ],
    [
      'an answer path outside the output',
      () => ({ consumer: { ...body.consumer, answer_path: '/x' } }),
      ['consumer', 'answer_path'],
    ],
    [
      'an invalid JSON pointer',
      () => ({ consumer: { ...body.consumer, answer_path: 'x' } }),
      ['consumer', 'answer_path'],
    ],
    [
      'an agreement metric without a consumer',
      () => ({ consumer: undefined, metric: 'consumer_agreement' }),
      ['consumer'],
    ],
    ['too few permutations', () => ({ permutations: 20 }), ['permutations']],
  ]
  for (const [what, change, loc] of faults) {
    it(`are rejected with ${what}`, async () => {
      const { status, body: answer } = await start(await change())

      assert.equal(status, 422, JSON.stringify(answer))
      assert.deepEqual(answer.detail[0].loc, ['body', ...loc])
    })
  }

  it('count as new work, which the kill switch refuses', async () => {
    const switchTo = (active: boolean) =>
      killSwitchRepository.writeKillSwitch(
        api.database.db,
        { active, reason: 'a test', actor: 'a test' },
        new Date(),
      )
    await switchTo(true)
    const { status, body: answer } = await start()
    await switchTo(false)

    assert.deepEqual([status, answer.error.code], [503, 'operator_kill_switch'])
  })
})
