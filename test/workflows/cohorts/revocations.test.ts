import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { until } from '../../support/assertions/until.ts'
import {
  embeddingSpace,
  evaluate,
  evidenceBody,
  safetensors,
} from '../../support/builders/cohorts/evidence.ts'
import { requireSpecialist, tinySpecialist } from '../../support/builders/models/tiny-specialist.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { type CohortTask, attemptsIn, CohortCaller } from '../../support/servers/worlds/cohort-caller.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const WIDTH = 32
const PRICE = 500
const TEXTS = ['the red fox', 'the blue boat', 'the green road']

/** An adapter that leaves vectors unchanged. */
const SAME = safetensors({
  weight: {
    shape: [WIDTH, WIDTH],
    values: Array.from({ length: WIDTH ** 2 }, (_, i) => (i % (WIDTH + 1) === 0 ? 1 : 0)),
  },
  bias: { shape: [WIDTH], values: Array<number>(WIDTH).fill(0) },
})

/** One encoder's vectors go to a model that expects another's, on evidence that is revoked during the run. */
describe('stages whose evidence is revoked during a run', function () {
  this.timeout(300_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let cohorts: CohortCaller
  let one: WorldNode
  let other: WorldNode
  let encoder: ImportedModel
  let spaces: Record<'own' | 'second' | 'third', string>
  let takes: Record<'own' | 'second' | 'third', EndpointRow>

  before(requireSpecialist)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    cohorts = new CohortCaller(world)
    stack.use(await world.control())
    one = stack.use(await node())
    other = stack.use(await node())
    const encoders = {
      own: (encoder = await imported('own', 1)),
      second: await imported('second', 2),
      third: await imported('third', 3),
    }
    spaces = {
      own: await register(encoders.own),
      second: await register(encoders.second),
      third: await register(encoders.third),
    }
    takes = {
      own: await taker(encoders.own),
      second: await taker(encoders.second),
      third: await taker(encoders.third),
    }
  })
  after(() => stack.disposeAsync())

  const node = () => world.node({ realCatalog: 'both', memoryMb: 4_000, accountId: world.accountId })
  const imported = async (name: string, seed: number) =>
    world.import({ name, path: await tinySpecialist({ hidden: WIDTH, seed }), task: 'embeddings' })
  async function spaceOf(body: object): Promise<string> {
    const { status, text, body: answer } = await evaluate(world.api, 'model-spaces', body)
    assert.equal(status, 200, text)
    return answer.spaces[0].space_id
  }
  const register = ({ version_id }: ImportedModel) =>
    spaceOf({ model_config_id: version_id, spaces: [embeddingSpace(WIDTH)] })
  /** A model that accepts an encoder's vectors and returns them. */
  async function taker({ version_id: model_config_id }: ImportedModel): Promise<EndpointRow> {
    const endpoint = await world.endpoint({ name: 'take' }, { price_micro: PRICE })
    await spaceOf({
      model_config_id: endpoint.version_id,
      spaces: [{ name: 'output', role: 'produces', kind: 'json' }],
      same_as: [{ name: 'input', role: 'accepts', model_config_id, space: 'output' }],
    })
    return endpoint
  }
  /** Registers evidence that the encoder's vectors may replace those of another encoder. */
  async function show(target: 'second' | 'third'): Promise<string> {
    const ids = { source_space_id: spaces.own, target_space_id: spaces[target] }
    const { adapter } = evidenceBody(ids, { file: SAME })
    const sized = { ...adapter!, input_dimensions: WIDTH, output_dimensions: WIDTH }
    const body = evidenceBody(ids, { adapter: sized })
    const { status, text, body: answer } = await evaluate(world.api, 'evidence', body)
    assert.equal(status, 200, text)
    return answer.evidence_id
  }
  const planOf = (fallbacks: EndpointRow[]): PlanRequest => ({
    stages: [
      {
        stage_id: 'encode',
        endpoint_id: encoder.endpoint_id,
        operation: 'embed',
        placement: { node_ids: [one.nodeId] },
      },
      {
        stage_id: 'take',
        endpoint_id: takes.second.id,
        fallbacks: fallbacks.map(({ id }) => id),
        placement: { node_ids: [other.nodeId] },
      },
    ],
    edges: [
      { from: { stage_id: 'input', path: '/texts' }, to: { stage_id: 'encode', path: '/text' } },
      {
        edge_id: 'vectors',
        from: { stage_id: 'encode' },
        to: { stage_id: 'take', path: '/instances' },
        space: { source: 'output', target: 'input' },
      },
    ],
    outputs: [
      { name: 'taken', stage_id: 'take', path: '/predictions' },
      { name: 'made', stage_id: 'encode' },
    ],
  })
  const edgeOf = ({ edges }: AnyBody) => edges.find(({ name }: AnyBody) => name === 'vectors')
  const revoke = async (id: string) => {
    const { status, text } = await evaluate(world.api, `evidence/${id}:revoke`, { reason: 'withdrawn' })
    assert.equal(status, 200, text)
  }

  /** Makes the encoder report its vectors only when the test lets it. */
  function holdVectors() {
    const { keepers } = one.parts
    const keep = keepers.keep.bind(keepers)
    const gate = Promise.withResolvers<void>()
    keepers.keep = async (...args) => {
      await gate.promise
      return keep(...args)
    }
    return {
      open: () => gate.resolve(),
      [Symbol.dispose]() {
        gate.resolve()
        keepers.keep = keep
      },
    }
  }

  /** Withholds the first answer of the consuming model from the platform. */
  function holdFirstAnswer() {
    const { control } = other.parts
    const complete = control.complete.bind(control)
    const held = Promise.withResolvers<void>()
    let isFirst = true
    control.complete = async (...args: Parameters<typeof complete>) => {
      if (!isFirst) return complete(...args)
      isFirst = false
      held.resolve()
      return unlessAborted(new Promise<never>(() => {}), args[2].signal!)
    }
    return { held: held.promise, [Symbol.dispose]: () => void (control.complete = complete) }
  }

  const isAtEdge = (run: CohortTask) =>
    until(async () => {
      const seen = await cohorts.summary(run)
      return seen.stages[1].status === 'waiting' && edgeOf(seen).state === 'negotiating'
    })

  const spent = async (run: CohortTask) =>
    0 - (await cohorts.bookings(run)).sums.by_purse[`account:${world.accountId}`]
  const hasFallenBack = (run: CohortTask, { id }: EndpointRow) =>
    until(async () => (await cohorts.stage(run, 'take')).endpoint_id === id)

  async function assertFellBack(
    run: CohortTask,
    evidenceId: string | null,
    code = 'evidence_revoked',
  ): Promise<void> {
    const seen = await cohorts.ended(run)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    // It had used its own endpoint's three attempts.
    assert.deepEqual(attemptsIn(seen), { encode: 'succeeded 1', take: 'succeeded 4' })
    const { state, evidence_id, attempt } = edgeOf(seen)
    assert.deepEqual([state, evidence_id, attempt], ['consumed', evidenceId, 2])
    const { taken, made } = await cohorts.result(run)
    assert.equal(taken.length, TEXTS.length)
    assert.deepEqual(
      taken,
      made.embeddings.map((vector: number[]) => [...new Float32Array(vector)]),
    )
    const events = await cohorts.events(run)
    const fallbackEvent = events.find(({ type }) => type === 'stage.fell_back')
    assert.deepEqual([fallbackEvent?.stage_id, fallbackEvent?.data.code], ['take', code])
    assert.ok(events.some(({ type }) => type === 'evidence.revoked'))
    assert.ok(!events.some(({ type }) => type === 'stage.retried'))
    assert.equal(await spent(run), PRICE)
  }

  it('continue, while they wait for the vectors, with a fallback that accepts them directly', async () => {
    const evidenceId = await show('second')
    using vectors = holdVectors()
    const run = await cohorts.run(planOf([takes.own]), { texts: TEXTS })
    await isAtEdge(run)
    assert.equal(edgeOf(await cohorts.summary(run)).evidence_id, evidenceId)

    await revoke(evidenceId)
    await hasFallenBack(run, takes.own)
    vectors.open()

    await assertFellBack(run, null)
  })

  it('continue with a fallback that has its own evidence after they have consumed the vectors', async () => {
    const evidenceId = await show('second')
    const another = await show('third')
    using answer = holdFirstAnswer()
    const run = await cohorts.run(planOf([takes.third]), { texts: TEXTS })
    await answer.held
    assert.equal(edgeOf(await cohorts.summary(run)).state, 'consumed')

    await revoke(evidenceId)

    await assertFellBack(run, another)
  })

  it('fail when the evidence of their fallback is revoked too, and nothing is paid', async () => {
    const evidenceId = await show('second')
    const another = await show('third')
    using vectors = holdVectors()
    const run = await cohorts.run(planOf([takes.third]), { texts: TEXTS })
    await isAtEdge(run)

    await revoke(another)
    await revoke(evidenceId)
    vectors.open()
    const seen = await cohorts.ended(run)

    assert.deepEqual([seen.status, seen.error.code], ['failed', 'evidence_revoked'], JSON.stringify(seen))
    assert.equal(attemptsIn(seen)['take'], 'failed 1')
    assert.equal(seen.cost_credits, 0)
    assert.equal(await spent(run), 0)
    assert.ok(!(await cohorts.events(run)).some(({ type }) => type === 'edge.consumed'))
  })

  it('continue with a fallback when their space is revoked', async () => {
    await show('second')
    using vectors = holdVectors()
    const run = await cohorts.run(planOf([takes.own]), { texts: TEXTS })
    await isAtEdge(run)

    const path = `model-spaces/${takes.second.version_id}:revoke`
    assert.equal((await evaluate(world.api, path, { reason: 'withdrawn' })).status, 200)
    await hasFallenBack(run, takes.own)
    vectors.open()

    await assertFellBack(run, null, 'space_revoked')
  })
})
