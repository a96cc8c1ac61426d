import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { createReconcileActivities } from '../../../activities/control/housekeeping/reconcile.ts'
import { findEvidence } from '../../../db/repositories/cohorts/evidence.ts'
import { findActiveSpaces } from '../../../db/repositories/cohorts/spaces.ts'
import { faultOfAdapter } from '../../../domain/cohorts/adapter.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { until } from '../../support/assertions/until.ts'
import { evaluate } from '../../support/builders/cohorts/evidence.ts'
import { requireSpecialist } from '../../support/builders/models/tiny-specialist.ts'
import { colouredTexts, EvaluationWorld } from '../../support/servers/worlds/evaluation-world.ts'

const COUNTS = { text_field: 'text', fit_count: 260, test_count: 220 }

describe('structuredEvaluation', function () {
  this.timeout(900_000)
  let world: EvaluationWorld
  let dataset_id: string
  let native: Awaited<ReturnType<EvaluationWorld['encoder']>>

  before(requireSpecialist)
  before(async () => {
    world = await EvaluationWorld.start()
    dataset_id = await world.texts(colouredTexts())
    native = await world.encoder('native', { seed: 1 })
  })
  after(() => world[Symbol.asyncDispose]())

  const side = ({ version_id }: { version_id: string }) => ({ model_config_id: version_id, space: 'output' })
  const workflow = ({ workflow_id }: { workflow_id: string }) =>
    world.on.temporal.client.workflow.getHandle(workflow_id)
  const filesOf = async (prefix: string) => {
    const keys: string[] = []
    for await (const { key } of world.on.api.services.objects.list(prefix)) keys.push(key)
    return keys
  }

  it('registers evidence that an encoder in half precision may replace the original', async () => {
    const halved = await world.encoder('halved', { seed: 1, dtype: 'float16' }, { isRegistered: false })

    const run = await world.run({
      source: side(halved),
      target: side(native),
      anchors: { dataset_id, ...COUNTS },
      // CPUs round half-precision numbers differently: on some CPUs the score is below 0.8.
      threshold: 0.7,
    })

    assert.deepEqual([run.status, run.reasons], ['registered', []], JSON.stringify(run))
    assert.equal(run.metric, 'retrieval_overlap')
    assert.ok(run.score > 0.7 && run.estimate >= run.score)
    const { db } = world.on.api.database
    // No caller has registered the space: the platform derived it from the files.
    const [text, output] = await findActiveSpaces(db, [halved.version_id]).then((all) =>
      all.toSorted((a, b) => b.kind.localeCompare(a.kind)),
    )
    assert.deepEqual([text?.kind, output?.kind, output?.dimensions], ['text', 'embedding', 32])
    const [evidence] = await findEvidence(db, {
      sourceSpaceId: output?.id ?? '',
      targetSpaceId: native.spaceId,
    })
    assert.deepEqual([evidence?.id, evidence?.status], [run.evidence_id, 'active'])
    const { adapter } = evidence ?? {}
    const { body } = await world.on.api.services.objects.get(adapter?.object_key ?? '')
    assert.ok(adapter)
    assert.equal(faultOfAdapter(await buffer(body), adapter), undefined)
    assert.deepEqual(await filesOf('evaluations/'), [])
    await recordHistory('structured-evaluation-registered', workflow(run))
  })

  it('rejects an encoder that was trained separately, with the reason', async () => {
    const stranger = await world.encoder('stranger', { seed: 7 })

    const run = await world.run({
      source: side(stranger),
      target: side(native),
      anchors: { dataset_id, ...COUNTS },
      threshold: 0.99,
    })

    assert.equal(run.status, 'rejected', JSON.stringify(run))
    assert.ok(run.reasons.includes('below_threshold'))
    assert.equal(run.evidence_id, null)
    assert.deepEqual(await filesOf(`evidence/${run.run_id}/`), [])
    await recordHistory('structured-evaluation-rejected', workflow(run))
  })

  it('fails with a code when there are too few distinct texts', async () => {
    const repeated = await world.texts(Array.from({ length: 480 }, (_, i) => `text ${i % 100}`))
    const other = await world.encoder('other', { seed: 3 })

    const run = await world.run({
      source: side(other),
      target: side(native),
      anchors: { dataset_id: repeated, ...COUNTS },
    })

    assert.deepEqual([run.status, run.reasons], ['failed', ['too_few_anchors']])
    const history = JSON.stringify(await workflow(run).fetchHistory())
    assert.ok(!history.includes('different texts'), 'the history must contain only codes')
    await recordHistory('structured-evaluation-failed', workflow(run))
  })

  it('is ended by the platform when an operator terminates its workflow, and no node may read it after that', async () => {
    const { services } = world.on.api
    const other = await world.encoder('terminated', { seed: 9 })
    const body = { source: side(other), target: side(native), anchors: { dataset_id, ...COUNTS } }
    const { body: started } = await evaluate(world.on.api, 'structured-runs', body)
    await until(async () => (await world.read(started.run_id)).status === 'embedding')
    await workflow(started).terminate('a test')

    await createReconcileActivities({ ...services, now: () => new Date() }).reconcileCohorts(null)

    const { status, reasons } = await world.read(started.run_id)
    assert.deepEqual([status, reasons], ['failed', ['workflow_ended']])
    await assert.rejects(
      world.node.parts.control.call('GET', `/api/v1/nodes/evaluations/${started.run_id}/source`),
      (err) => err instanceof ControlError && err.status === 404,
    )
  })

  it('waits until a revoked model is registered again', async () => {
    const revoked = await world.encoder('revoked', { seed: 5 })
    await evaluate(world.on.api, `model-spaces/${revoked.version_id}:revoke`, { reason: 'withdrawn' })

    const { status, body } = await evaluate(world.on.api, 'structured-runs', {
      source: side(revoked),
      target: side(native),
      anchors: { dataset_id, ...COUNTS },
    })

    assert.deepEqual([status, body.error.details.field], [409, 'source'])
  })
})
