import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { EdgeMode, Transport } from '../../../schemas/cohorts/vocabulary.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { embeddingSpace, evaluate, evidenceBody, mapFile } from '../../support/builders/cohorts/evidence.ts'
import { requireSpecialist, tinySpecialist } from '../../support/builders/models/tiny-specialist.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'
import { colouredTexts } from '../../support/servers/worlds/evaluation-world.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const WIDTH = 32
/** Seven batches; the last one is partial. */
const TEXTS = colouredTexts().slice(0, 200)
const BATCHES = 7

describe('vectors of many texts, handed over in frames', function () {
  this.timeout(600_000)
  let world: InferenceWorld
  let control: AsyncDisposable
  let encoder: ImportedModel
  let other: ImportedModel
  let echo: EndpointRow
  let [a, b, c]: WorldNode[] = []
  let wanted: number[][]

  before(requireSpecialist)
  before(async () => {
    world = await startInferenceWorld()
    control = await world.control()
    ;[a, b, c] = [await node(), await node(), await node()]
    const path = await tinySpecialist({ hidden: WIDTH, seed: 1 })
    encoder = await world.import({ name: 'encoder', path, task: 'embeddings' })
    const otherPath = await tinySpecialist({ hidden: WIDTH, seed: 2 })
    other = await world.import({ name: 'other', path: otherPath, task: 'embeddings' })
    echo = await world.endpoint({ name: 'echo' })
    await register({ model_config_id: encoder.version_id, spaces: [embeddingSpace(WIDTH)] })
    await register({
      model_config_id: echo.version_id,
      spaces: [{ name: 'output', role: 'produces', kind: 'json' }],
      same_as: [{ name: 'input', role: 'accepts', model_config_id: encoder.version_id, space: 'output' }],
    })
    const { vectors } = await finished(await run(planOf({ mode: 'transfer' })))
    wanted = vectors
    assert.deepEqual([wanted.length, wanted[0]?.length], [TEXTS.length, WIDTH])
  })
  after(async () => {
    for (const one of [a, b, c, control, world]) await one?.[Symbol.asyncDispose]()
  })

  const node = () => world.node({ realCatalog: 'both', memoryMb: 4_000, accountId: world.accountId })
  const call = (method: 'GET' | 'POST', path: string, body?: object) =>
    world.api.call(method, path, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    }) as Promise<{ status: number; body: AnyBody }>
  async function register(body: object): Promise<string> {
    const { status, text, body: answer } = await evaluate(world.api, 'model-spaces', body)
    assert.equal(status, 200, text)
    return answer.spaces[0].space_id
  }
  /** Registers evidence that the other encoder's vectors may replace those of the first. */
  async function allowOther(): Promise<string> {
    const of = ({ version_id }: ImportedModel) =>
      register({ model_config_id: version_id, spaces: [embeddingSpace(WIDTH)] })
    const spaces = { source_space_id: await of(other), target_space_id: await of(encoder) }
    const file = mapFile(WIDTH, WIDTH)
    const { adapter } = evidenceBody(spaces, { file })
    const shown = evidenceBody(spaces, {
      file,
      adapter: { ...adapter!, input_dimensions: WIDTH, output_dimensions: WIDTH },
    })
    const { status, text, body } = await evaluate(world.api, 'evidence', shown)
    assert.equal(status, 200, text)
    return body.evidence_id
  }
  const planOf = (
    edge: { mode: EdgeMode; transports?: Transport[] },
    { from = a, to = [b] }: { from?: WorldNode | undefined; to?: (WorldNode | undefined)[] } = {},
  ): PlanRequest => ({
    stages: [
      {
        stage_id: 'encode',
        endpoint_id: encoder.endpoint_id,
        operation: 'embed',
        placement: { node_ids: [from!.nodeId] },
      },
      { stage_id: 'take', endpoint_id: echo.id, placement: { node_ids: to.map((one) => one!.nodeId) } },
    ],
    edges: [
      { from: { stage_id: 'input', path: '/texts' }, to: { stage_id: 'encode', path: '/text' } },
      {
        edge_id: 'vectors',
        from: { stage_id: 'encode' },
        to: { stage_id: 'take', path: '/instances' },
        space: { source: 'output', target: 'input' },
        ...edge,
      },
    ],
    outputs: [
      { name: 'taken', stage_id: 'take', path: '/predictions' },
      { name: 'made', stage_id: 'encode' },
    ],
  })
  async function run(plan: PlanRequest): Promise<string> {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input: { texts: TEXTS } })
    assert.equal(status, 202, JSON.stringify(body))
    return body.task_id
  }
  const summary = async (taskId: string) => (await call('GET', `/api/v1/tasks/${taskId}/cohort`)).body
  const edgeOf = ({ edges }: AnyBody) => edges.find(({ name }: AnyBody) => name === 'vectors')
  async function ended(taskId: string): Promise<AnyBody> {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(taskId)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    }, 120_000)
    return seen
  }
  /** Returns what a successful run handed over, once its payloads are gone. */
  async function finished(taskId: string) {
    const seen = await ended(taskId)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const { taken, made } = (await world.task(taskId)).result
    // The payload holds 32-bit floats.
    assert.deepEqual(
      taken,
      made.embeddings.map((one: number[]) => [...new Float32Array(one)]),
    )
    await until(nothingLeft)
    return { seen, edge: edgeOf(seen), vectors: taken as number[][], made }
  }
  const nothingLeft = () => [a, b, c].every((one) => !one || one.parts.edges.store.usedBytes === 0)
  const attempts = ({ stages }: AnyBody) => stages.map(({ attempt }: AnyBody) => attempt)
  function assertAlike(vectors: number[][]): void {
    const differences = vectors.flatMap((one, i) => one.map((x, j) => Math.abs(x - wanted[i]![j]!)))
    assert.equal(vectors.length, wanted.length)
    assert.ok(Math.max(...differences) < 1e-6, `${Math.max(...differences)}`)
  }

  it('equal the vectors of a whole transfer, and start arriving before all are computed', async () => {
    using pace = paced(a!, encoder.model_key, 3)
    using frames = framesAt(b!)

    const task = await run(planOf({ mode: 'session' }))
    await until(() => pace.asked === 4 && frames.bytes > 2 * 32 * WIDTH * 4)
    const during = await summary(task)
    pace.open()
    const { seen, edge, vectors, made } = await finished(task)

    assert.deepEqual([during.stages[0].status, edgeOf(during).state], ['running', 'open'])
    assert.deepEqual([edge.mode, edge.transport, edge.state], ['session', 'direct', 'consumed'])
    assert.deepEqual(attempts(seen), [1, 1])
    assert.equal(pace.asked, BATCHES)
    assertAlike(vectors)
    assert.ok(made.usage.total_tokens > TEXTS.length)
    assert.deepEqual([edge.rate_mb_s, edge.bytes > TEXTS.length * WIDTH * 4], [null, true])
  })

  it('are planned as a session only between two nodes', async () => {
    const planned = async (to: WorldNode) => {
      const { body } = await call('POST', '/api/v1/cohorts:plan', planOf({ mode: 'session' }, { to: [to] }))
      const { mode, transport } = body.edges.find(({ edge_id }: AnyBody) => edge_id === 'vectors')
      return [body.feasible, mode, transport]
    }

    assert.deepEqual(await planned(b!), [true, 'session', 'direct'])
    assert.deepEqual(await planned(a!), [true, 'transfer', 'local'])
  })

  it('resume after the last received frame when the connection is cut', async () => {
    using pace = paced(a!, encoder.model_key, 3)
    using frames = framesAt(b!)
    await using proxies = proxied(b!)

    const task = await run(planOf({ mode: 'session' }))
    await until(() => pace.asked === 4 && frames.bytes > 2 * 32 * WIDTH * 4)
    const [proxy] = proxies.all
    const before = { connections: proxy!.connections, frames: frames.count }
    proxy!.cutAt = proxy!.bytes + 100
    pace.open()
    const { seen, edge, vectors } = await finished(task)

    assert.ok(proxy!.connections > before.connections)
    assert.ok(frames.count > before.frames)
    assert.deepEqual([edge.mode, edge.attempt, attempts(seen)], ['session', 1, [1, 1]])
    assert.equal(frames.bytes, edge.bytes)
    assertAlike(vectors)
  })

  it('are handed over as a whole when the nodes are not connected, or on a single node', async () => {
    for (const [transport, to] of [
      ['relay', b],
      ['local', a],
    ] as const) {
      const edge = {
        mode: 'session' as const,
        ...(transport === 'relay' && { transports: ['relay' as const] }),
      }
      const { edge: used, vectors } = await finished(await run(planOf(edge, { to: [to] })))

      assert.deepEqual([used.mode, used.transport, used.attempt], ['transfer', transport, 1])
      assertAlike(vectors)
    }
  })

  it('are handed over as a whole when no address of the producer answers', async () => {
    await using _proxies = proxied(b!, { isDead: true })

    const { edge, vectors } = await finished(await run(planOf({ mode: 'session' })))
    await world.api.database.db.deleteFrom('edge_rate').execute()

    assert.deepEqual([edge.mode, edge.transport, edge.attempt], ['transfer', 'relay', 1])
    assertAlike(vectors)
  })

  it('leave nothing behind after a cancellation', async () => {
    using pace = paced(a!, encoder.model_key, 3)
    using frames = framesAt(b!)
    const task = await run(planOf({ mode: 'session' }))
    await until(() => pace.asked === 4 && frames.bytes > 0)
    assert.equal(nothingLeft(), false)

    const at = performance.now()
    await call('POST', `/api/builder/v1/tasks/${task}:cancel`)
    await until(nothingLeft, SOON_MS)
    const took = performance.now() - at

    assert.equal((await ended(task)).status, 'cancelled')
    assert.ok(took < SOON_MS, `${took} ms`)
  })

  it('reach no model once the evidence that allows them is revoked', async () => {
    const evidenceId = await allowOther()
    const plan = planOf({ mode: 'session' })
    plan.stages[0]!.endpoint_id = other.endpoint_id
    using pace = paced(a!, other.model_key, 3)
    using frames = framesAt(b!)
    const task = await run(plan)
    await until(() => pace.asked === 4 && frames.bytes > 0)
    assert.equal(edgeOf(await summary(task)).state, 'open')

    const { body } = await evaluate(world.api, `evidence/${evidenceId}:revoke`, { reason: 'withdrawn' })
    const failed = edgeOf(await summary(task))
    const seen = await ended(task)
    await until(nothingLeft, SOON_MS)

    assert.equal(body.edges_failed, 1)
    assert.deepEqual([failed.state, failed.failure], ['failed', 'evidence_revoked'])
    assert.deepEqual([seen.status, seen.error.code], ['failed', 'evidence_revoked'])
    assert.equal(seen.stages[1].attempt, 1)
  })

  it('go to another node when the first is lost in the meantime, without being recomputed', async () => {
    using pace = paced(a!, encoder.model_key, 3)
    using frames = framesAt(b!)
    // The consumer's model is loaded only on `b`.
    const task = await run(planOf({ mode: 'session' }, { to: [b, c] }))
    await until(() => pace.asked === 4 && frames.bytes > 0)

    await b![Symbol.asyncDispose]()
    await until(async () => edgeOf(await summary(task)).attempt === 2)
    pace.open()
    const { seen, edge, vectors } = await finished(task)

    assert.deepEqual(attempts(seen), [1, 2])
    assert.deepEqual([edge.attempt, edge.consumer_node_id], [2, c!.nodeId])
    assert.equal(pace.asked, BATCHES)
    assertAlike(vectors)
  })

  it('are recomputed when their node is lost in the meantime, while the consumer continues on its node', async () => {
    using pace = paced(a!, encoder.model_key, 3)
    b = await node()
    using frames = framesAt(b)
    const plan = planOf({ mode: 'session' })
    plan.stages[0]!.placement = { node_ids: [a!.nodeId, c!.nodeId] }
    const task = await run(plan)
    await until(() => pace.asked === 4 && frames.bytes > 0)
    const taken = frames.count
    // Vectors that are all computed before the nodes connect would be sent as a whole.
    using again = paced(c!, encoder.model_key, 3)

    await a![Symbol.asyncDispose]()
    await until(() => frames.count > taken)
    again.open()
    const { seen, edge, vectors } = await finished(task)

    assert.deepEqual(attempts(seen), [2, 1])
    assert.deepEqual([edge.mode, edge.producer_node_id], ['session', c!.nodeId])
    assertAlike(vectors)
  })
})

/** Lets a model answer `most` requests, and holds back the others until it is opened. */
function paced(node: WorldNode, modelKey: string, most: number) {
  const { models } = node.parts
  const use = models.use.bind(models)
  const gate = Promise.withResolvers<void>()
  const pace = {
    asked: 0,
    open: () => gate.resolve(),
    [Symbol.dispose]() {
      gate.resolve()
      models.use = use
    },
  }
  models.use = (key) => {
    const found = use(key)
    if (!found || key !== modelKey) return found
    const { server } = found
    const pool = Object.create(server.pool) as typeof server.pool
    pool.request = (async (options: Parameters<typeof pool.request>[0]) => {
      pace.asked += 1
      const signal = options.signal as AbortSignal
      if (pace.asked > most) await unlessAborted(gate.promise, signal)
      return server.pool.request(options)
    }) as typeof pool.request
    return Object.create(found, {
      server: { value: Object.create(server, { pool: { value: pool } }) },
    }) as typeof found
  }
  return pace
}

/** Counts the session frames that a node receives. */
function framesAt({ parts: { edges } }: WorldNode) {
  const receive = edges.receiveFrames.bind(edges)
  const seen = {
    count: 0,
    bytes: 0,
    [Symbol.dispose]() {
      edges.receiveFrames = receive
    },
  }
  edges.receiveFrames = (peer, options) =>
    receive(peer, {
      ...options,
      onTaken(taken) {
        seen.count += 1
        seen.bytes = taken.bytes
        options.onTaken(taken)
      },
    })
  return seen
}

/** Puts a proxy between a node and each producer it connects to; a dead proxy accepts no connections. */
function proxied({ parts: { control } }: WorldNode, { isDead = false } = {}) {
  const edge = control.edge.bind(control)
  const all: TcpProxy[] = []
  const instead = new Map<string, string>()
  const urlOf = async (url: string): Promise<string> => {
    const proxy = await startTcpProxy(Number(new URL(url).port))
    if (isDead) await proxy[Symbol.asyncDispose]()
    else all.push(proxy)
    const own = `https://127.0.0.1:${proxy.port}`
    instead.set(own, url)
    return own
  }
  control.edge = (async (verb: 'rendezvous', place: never, body: AnyBody, options: never) => {
    if (verb !== 'rendezvous') return edge(verb, place, body, options)
    const selected = typeof body.selected === 'string' ? { selected: instead.get(body.selected) } : {}
    const answer = await edge<AnyBody>(verb, place, { ...body, ...selected }, options)
    if (body.role !== 'consumer' || !answer.candidates) return answer
    const candidates = []
    for (const one of answer.candidates) candidates.push({ ...one, url: await urlOf(one.url) })
    return { ...answer, candidates }
  }) as typeof control.edge
  return {
    all,
    async [Symbol.asyncDispose]() {
      control.edge = edge
      for (const proxy of all) await proxy[Symbol.asyncDispose]()
    },
  }
}
