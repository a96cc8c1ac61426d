import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { beforeEdgeCalls } from '../../support/assertions/edge-calls.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { evaluate } from '../../support/builders/cohorts/evidence.ts'
import { requireSpecialist } from '../../support/builders/models/tiny-specialist.ts'
import { writeJsonl } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { runTrainer } from '../../support/servers/nodes/trainer.ts'
import { colouredTexts, EvaluationWorld } from '../../support/servers/worlds/evaluation-world.ts'
import type { WorldNode } from '../../support/servers/worlds/inference-world.ts'

type Encoder = Awaited<ReturnType<EvaluationWorld['encoder']>>

const WIDTH = 32
const SAMPLE = 12
const COLUMNS = Array.from({ length: WIDTH }, (_, i) => `x${i}`)
const EMPTY_ROW = Object.fromEntries(COLUMNS.map((name) => [name, 0]))
const WARM = ['red', 'brown', 'pink', 'white']
const kindOf = (text: string): string => (WARM.includes(text.split(' ')[1] ?? '') ? 'warm' : 'cold')

describe('a vector classifier behind another encoder (S2)', function () {
  this.timeout(900_000)
  const folder = temporaryFolder()
  const texts = colouredTexts()
  const sample = texts.filter((_, i) => i % Math.floor(texts.length / SAMPLE) === 0).slice(0, SAMPLE)
  let world: EvaluationWorld
  let other: WorldNode
  let native: Encoder
  let halved: Encoder
  let classifier: EndpointRow
  let anchors: string
  let labels: string[]

  before(requireSpecialist)
  before(async () => {
    world = await EvaluationWorld.start()
    const { on } = world
    other = await on.node({ realCatalog: true, memoryMb: 4_000, accountId: on.accountId })
    native = await world.encoder('native', { seed: 1 })
    halved = await world.encoder('halved', { seed: 1, dtype: 'float16' })
    anchors = await world.texts(texts)
    const rows = (await embed(native, texts)).map((vector, i) => ({
      ...columns(vector),
      label: kindOf(texts[i] ?? ''),
    }))
    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-classification',
      format: 'jsonl',
      file: await writeJsonl(folder.path, rows),
      hyperparameters: { target_column: 'label' },
    })
    assert.equal(run.code, 0, run.error?.message)
    classifier = await world.trained('colours', run)
    await registerVectors()
    labels = await classify(await embed(native, sample))
  })
  after(async () => {
    await other?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const columns = (vector: readonly number[]) =>
    Object.fromEntries(COLUMNS.map((name, i) => [name, vector[i] ?? 0]))

  /**
   * Registers that the classifier accepts the vectors of the native encoder, as docs/cohorts-evaluator.md describes.
   */
  async function registerVectors(): Promise<void> {
    const { status, text } = await evaluate(world.on.api, 'model-spaces', {
      model_config_id: classifier.version_id,
      spaces: [{ name: 'output', role: 'produces', kind: 'json' }],
      same_as: [{ name: 'input', role: 'accepts', model_config_id: native.version_id, space: 'output' }],
    })
    assert.equal(status, 200, text)
  }

  async function infer(endpointId: string, input: object): Promise<AnyBody> {
    const { status, body } = await world.on.api.call(
      'POST',
      `/api/builder/v1/endpoints/${endpointId}/infer`,
      {
        key: world.on.key,
        body: { input, sync: true, sync_timeout_s: 200 },
      },
    )
    assert.ok(status < 300 && body.status === 'succeeded', JSON.stringify(body))
    return body.result
  }

  async function embed({ endpoint_id }: Encoder, all: readonly string[]): Promise<number[][]> {
    const found: number[][] = []
    for (let at = 0; at < all.length; at += 60)
      found.push(...(await infer(endpoint_id, { text: all.slice(at, at + 60) })).embeddings)
    return found
  }

  async function classify(vectors: readonly (readonly number[])[]): Promise<string[]> {
    const { predictions } = await infer(classifier.id, { instances: vectors.map(columns) })
    return predictions.map(({ label }: AnyBody) => label)
  }

  const call = (method: 'GET' | 'POST', path: string, body?: object) =>
    world.on.api.call(method, path, {
      key: world.on.key,
      headers: { 'x-account-id': world.on.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    }) as Promise<{ status: number; body: AnyBody }>
  const planOf = (encoder: Encoder): PlanRequest => ({
    name: 'which colour',
    stages: [
      {
        stage_id: 'encode',
        endpoint_id: encoder.endpoint_id,
        operation: 'embed',
        placement: { node_ids: [world.node.nodeId] },
      },
      {
        stage_id: 'classify',
        endpoint_id: classifier.id,
        input: { instances: [EMPTY_ROW] },
        placement: { node_ids: [other.nodeId] },
      },
    ],
    edges: [
      { from: { stage_id: 'input', path: '/text' }, to: { stage_id: 'encode', path: '/text' } },
      {
        edge_id: 'vector',
        from: { stage_id: 'encode' },
        to: { stage_id: 'classify', path: '/instances/0' },
        space: { source: 'output', target: 'input' },
      },
    ],
    outputs: [{ name: 'label', stage_id: 'classify', path: '/predictions/0/label' }],
  })
  const planned = async (encoder: Encoder) =>
    (await call('POST', '/api/v1/cohorts:plan', planOf(encoder))).body
  const summary = async (taskId: string) => (await call('GET', `/api/v1/tasks/${taskId}/cohort`)).body
  const edgeOf = ({ edges }: AnyBody) => edges.find(({ name }: AnyBody) => name === 'vector')
  const codes = ({ reasons }: AnyBody) => reasons.map(({ code }: AnyBody) => code)
  async function start(encoder: Encoder, text: string, more: object = {}): Promise<AnyBody> {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', {
      plan: planOf(encoder),
      input: { text },
      ...more,
    })
    assert.equal(status, 202, JSON.stringify(body))
    return body
  }
  async function ended(taskId: string): Promise<AnyBody> {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(taskId)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    }, 120_000)
    return seen
  }
  async function labelOf(encoder: Encoder, text: string): Promise<{ label: string; seen: AnyBody }> {
    const { task_id } = await start(encoder, text)
    const seen = await ended(task_id)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    return { label: (await world.on.task(task_id)).result.label, seen }
  }
  const measure = (source: Encoder, threshold: number) =>
    world.run({
      source: { model_config_id: source.version_id, space: 'output' },
      target: { model_config_id: native.version_id, space: 'output' },
      consumer: {
        endpoint_id: classifier.id,
        input_path: '/instances/0',
        answer_path: '/predictions/0/label',
      },
      anchors: { dataset_id: anchors, text_field: 'text', fit_count: 260, test_count: 220 },
      threshold,
    })

  it('accepts the vectors of its own encoder directly', async () => {
    const plan = await planned(native)
    assert.equal(plan.feasible, true, JSON.stringify(plan))

    const { label, seen } = await labelOf(native, sample[0] ?? '')

    assert.equal(label, labels[0])
    const { state, evidence_id, producer_node_id, consumer_node_id } = edgeOf(seen)
    assert.deepEqual([state, evidence_id], ['consumed', null])
    assert.deepEqual([producer_node_id, consumer_node_id], [world.node.nodeId, other.nodeId])
  })

  it('recomputes the vectors in a run that resumes another, because they were removed with the earlier run', async () => {
    const { control } = other.parts
    const complete = control.complete.bind(control)
    const consumed = Promise.withResolvers<void>()
    control.complete = (...args: Parameters<typeof complete>) => {
      consumed.resolve()
      return unlessAborted(new Promise<never>(() => {}), args[2].signal ?? new AbortController().signal)
    }
    const first = await start(native, sample[0] ?? '', { keep_outputs: true })
    await consumed.promise
    await call('POST', `/api/builder/v1/tasks/${first.task_id}:cancel`)
    assert.equal((await ended(first.task_id)).status, 'cancelled')
    control.complete = complete

    const again = await start(native, sample[0] ?? '', { resume_of: first.cohort_id })
    const seen = await ended(again.task_id)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ attempt }: AnyBody) => attempt),
      [1, 1],
    )
    assert.equal((await world.on.task(again.task_id)).result.label, labels[0])
  })

  it('accepts the vectors of another encoder once a structured run has provided evidence', async () => {
    assert.deepEqual(codes(await planned(halved)), ['evidence_missing'])

    const run = await measure(halved, 0.9)

    assert.deepEqual([run.status, run.reasons], ['registered', []], JSON.stringify(run))
    const plan = await planned(halved)
    assert.equal(plan.feasible, true, JSON.stringify(plan))
    const edge = plan.edges.find(({ edge_id }: AnyBody) => edge_id === 'vector')
    assert.deepEqual([edge.evidence_id, edge.score], [run.evidence_id, run.score])

    let agreeing = 0
    for (const [i, text] of sample.entries()) {
      const { label, seen } = await labelOf(halved, text)
      if (label === labels[i]) agreeing += 1
      const { state, evidence_id, transport } = edgeOf(seen)
      assert.deepEqual([state, evidence_id], ['consumed', run.evidence_id])
      assert.ok(['inline', 'direct', 'relay'].includes(transport), transport)
    }
    assert.ok(new Set(labels).size > 1)
    // The score comes from other texts, so this sample may be two standard errors below it.
    const error = Math.sqrt((run.score * (1 - run.score)) / sample.length)
    assert.ok(
      agreeing / sample.length >= run.score - 2 * error,
      `${agreeing} of ${sample.length}, ${run.score}`,
    )
  })

  it('rejects the vectors of an untrained encoder', async () => {
    const untrained = await world.encoder('untrained', { seed: 7, layers: 1 })

    const run = await measure(untrained, 0.995)

    assert.equal(run.status, 'rejected', JSON.stringify(run))
    assert.ok(run.reasons.includes('below_threshold'), JSON.stringify(run.reasons))
    assert.deepEqual(codes(await planned(untrained)), ['evidence_missing'])
  })

  it('continues with vectors whose evidence expires during the hand-over, but plans no more runs with it', async () => {
    const { db } = world.on.api.database
    let evidenceId = ''
    let validUntil = new Date()
    using _watched = beforeEdgeCalls(other, async ({ verb, place }) => {
      if (verb !== 'consume' || evidenceId !== '') return
      const edge = await db
        .selectFrom('cohort_edge')
        .innerJoin('compatibility_evidence', 'compatibility_evidence.id', 'cohort_edge.evidence_id')
        .select(['compatibility_evidence.id', 'valid_until'])
        .where('cohort_edge.id', '=', place.edgeId)
        .executeTakeFirst()
      if (!edge) return
      evidenceId = edge.id
      validUntil = edge.valid_until
      await expire(evidenceId, new Date(Date.now() - 1_000))
    })
    const expire = (id: string, valid_until: Date) =>
      db.updateTable('compatibility_evidence').set({ valid_until }).where('id', '=', id).execute()

    const { seen } = await labelOf(halved, sample[0] ?? '')

    assert.equal(edgeOf(seen).evidence_id, evidenceId)
    assert.deepEqual([edgeOf(seen).state, edgeOf(seen).attempt], ['consumed', 1])
    assert.deepEqual(codes(await planned(halved)), ['evidence_expired'])
    await expire(evidenceId, validUntil)
  })

  it('ends a run that is waiting for vectors with revoked evidence, and retries nothing', async () => {
    const { keepers } = world.node.parts
    const keep = keepers.keep.bind(keepers)
    const gate = Promise.withResolvers<void>()
    // The encoder has finished, but reports its vectors only when the test allows it.
    keepers.keep = async (...args) => {
      await gate.promise
      return keep(...args)
    }
    try {
      const { task_id } = await start(halved, sample[0] ?? '')
      await until(async () => {
        const seen = await summary(task_id)
        return seen.stages[1].status === 'waiting' && edgeOf(seen).state === 'negotiating'
      })
      const { evidence_id } = edgeOf(await summary(task_id))

      const revokedAt = performance.now()
      const { body } = await evaluate(world.on.api, `evidence/${evidence_id}:revoke`, { reason: 'withdrawn' })
      const failed = edgeOf(await summary(task_id))
      const failedMs = performance.now() - revokedAt
      gate.resolve()
      const seen = await ended(task_id)

      assert.deepEqual([body.edges_failed, body.evidence_revoked], [1, [evidence_id]])
      assert.deepEqual([failed.state, failed.failure], ['failed', 'evidence_revoked'])
      assert.ok(failedMs < SOON_MS, `the edge failed after ${failedMs} ms`)
      assert.deepEqual([seen.status, seen.error.code], ['failed', 'evidence_revoked'], JSON.stringify(seen))
      assert.deepEqual([seen.stages[1].attempt, seen.stages[1].status], [1, 'failed'])
      assert.deepEqual([edgeOf(seen).state, edgeOf(seen).failure], ['failed', 'evidence_revoked'])
      const { events } = (await call('GET', `/api/v1/tasks/${task_id}/cohort/events?limit=500`)).body
      const types = events
        .filter(({ edge_id }: AnyBody) => edge_id === edgeOf(seen).edge_id)
        .map(({ type }: AnyBody) => type)
      assert.ok(types.includes('edge.failed') && !types.includes('edge.consumed'), types.join())
      assert.ok(!types.includes('edge.retried'), types.join())
      assert.deepEqual(codes(await planned(halved)), ['evidence_revoked'])
    } finally {
      gate.resolve()
      keepers.keep = keep
    }
  })

  it('ends a run whose classifier is processing vectors with revoked evidence', async () => {
    const { control } = other.parts
    const complete = control.complete.bind(control)
    const consumed = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    // The classifier has its answer, but reports it only when the test allows it.
    control.complete = async (...args: Parameters<typeof complete>) => {
      consumed.resolve()
      await unlessAborted(gate.promise, args[2].signal ?? new AbortController().signal)
      return complete(...args)
    }
    try {
      assert.equal((await measure(halved, 0.9)).status, 'registered')
      const { task_id } = await start(halved, sample[0] ?? '')
      await consumed.promise
      const { evidence_id } = edgeOf(await summary(task_id))

      const { body } = await evaluate(world.on.api, `evidence/${evidence_id}:revoke`, { reason: 'withdrawn' })
      const seen = await ended(task_id)
      gate.resolve()

      assert.equal(body.edges_failed, 1)
      assert.deepEqual([seen.status, seen.error.code], ['failed', 'evidence_revoked'], JSON.stringify(seen))
      assert.deepEqual([seen.stages[1].attempt, seen.stages[1].status], [1, 'failed'])
      assert.deepEqual([edgeOf(seen).state, edgeOf(seen).failure], ['failed', 'evidence_revoked'])
    } finally {
      gate.resolve()
      control.complete = complete
    }
  })
})
