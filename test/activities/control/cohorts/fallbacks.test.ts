import assert from 'node:assert/strict'
import { createCohortActivities } from '../../../../activities/control/cohorts/cohorts.ts'
import { buildEndpoint, buildVersion } from '../../../support/builders/build-endpoint.ts'
import { buildCohort, buildEdge, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { embeddingSpace, evaluate, evidenceBody } from '../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

/** A stage that has used up its attempts continues with a fallback that can do its work and accept its input. */
describe('stage fallbacks', () => {
  let api: TestApi
  let accountId: string
  let steps: ReturnType<typeof createCohortActivities>
  before(async () => {
    api = await startApi()
    ;({ accountId } = await api.account())
    const { db, objects, catalog, config, log, now, temporal } = api.services
    steps = createCohortActivities({ db, objects, catalog, config, log, now, temporal })
  })
  after(() => api[Symbol.asyncDispose]())

  async function model(space: object, task_type = 'embeddings') {
    const { db } = api.database
    const { id, model_key } = await buildVersion(db, accountId)
    const endpoint = await buildEndpoint(db, accountId, { version_id: id, model_key, task_type })
    const weights_digest = id.replaceAll('-', '').repeat(2)
    const { body } = await evaluate(api, 'model-spaces', {
      model_config_id: id,
      spaces: [{ weights_digest, ...space }],
    })
    const { space_id, fingerprint } = body.spaces[0]
    return { endpoint: endpoint.id, model_key, space: space_id as string, fingerprint: fingerprint as string }
  }
  type Model = Awaited<ReturnType<typeof model>>
  const evidence = async (from: Model, to: Model): Promise<string> => {
    const ids = { source_space_id: from.space, target_space_id: to.space }
    return (await evaluate(api, 'evidence', evidenceBody(ids))).body.evidence_id
  }
  const INPUT = { name: 'input', role: 'accepts' }

  /** Builds two stages with a hand-over; one of them has used up its attempts. */
  async function failed(
    side: 'from' | 'to',
    {
      from,
      to,
      evidenceId,
      ...spec
    }: { from: Model; to: Model; evidenceId: string; fallbacks: string[]; operation?: string },
  ) {
    const { db } = api.database
    const cohort = await buildCohort(db, accountId)
    const build = (at: 'from' | 'to', { endpoint, model_key }: Model) =>
      buildStage(db, cohort, {
        name: at,
        position: at === 'from' ? 0 : 1,
        endpoint_id: endpoint,
        model_key,
        status: at === side ? 'running' : 'succeeded',
        specification: JSON.stringify({
          stage_id: at,
          endpoint_id: endpoint,
          operation: 'infer',
          max_attempts: 1,
          fallbacks: [],
          required: true,
          ...(at === side && spec),
        }),
      })
    const stages = [await build('from', from), await build('to', to)] as const
    await buildEdge(db, stages, {
      kind: 'embedding',
      source_space_id: from.space,
      target_space_id: to.space,
      source_fingerprint: from.fingerprint,
      target_fingerprint: to.fingerprint,
      evidence_id: evidenceId,
    })
    const [stage] = stages.filter(({ name }) => name === side)
    const settled = await steps.settleStage({
      stageId: stage!.id,
      attempt: 1,
      code: 'inference_failed',
      message: 'it failed',
    })
    const { endpoint_id } = await db
      .selectFrom('cohort_stage')
      .select('endpoint_id')
      .where('id', '=', stage!.id)
      .executeTakeFirstOrThrow()
    const edge = await db
      .selectFrom('cohort_edge')
      .select(['source_space_id', 'target_space_id', 'target_fingerprint', 'evidence_id'])
      .where('cohort_id', '=', cohort.id)
      .executeTakeFirstOrThrow()
    return { verdict: settled.verdict, endpoint: endpoint_id, edge }
  }

  it('take over only with their own evidence, which is then stored with the hand-over', async () => {
    const [from, to, blind, shown] = [
      await model(embeddingSpace(4)),
      await model(embeddingSpace(6, INPUT)),
      await model(embeddingSpace(6, INPUT)),
      await model(embeddingSpace(6, INPUT)),
    ]
    const evidenceId = await evidence(from, to)
    const other = await evidence(from, shown)

    const { verdict, endpoint, edge } = await failed('to', {
      from,
      to,
      evidenceId,
      fallbacks: [blind.endpoint, shown.endpoint],
    })

    assert.deepEqual([verdict, endpoint], ['again', shown.endpoint])
    assert.deepEqual(edge, {
      source_space_id: from.space,
      target_space_id: shown.space,
      target_fingerprint: shown.fingerprint,
      evidence_id: other,
    })
  })

  it('do not take over if they produce a different space or lack the operation', async () => {
    const [from, other, to] = [
      await model(embeddingSpace(4)),
      await model(embeddingSpace(4)),
      await model(embeddingSpace(6, INPUT)),
    ]
    const evidenceId = await evidence(from, to)
    await evidence(other, to)
    const same = await model(embeddingSpace(6, INPUT), 'tabular-regression')
    const reader = await evidence(from, same)
    assert.ok(reader)

    const producer = await failed('from', { from, to, evidenceId, fallbacks: [other.endpoint] })
    const consumer = await failed('to', {
      from,
      to,
      evidenceId,
      fallbacks: [same.endpoint],
      operation: 'embed',
    })

    assert.deepEqual([producer.verdict, producer.endpoint], ['failed', from.endpoint])
    assert.deepEqual([consumer.verdict, consumer.endpoint], ['failed', to.endpoint])
  })
})
