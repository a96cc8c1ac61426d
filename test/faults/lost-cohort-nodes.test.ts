import assert from 'node:assert/strict'
import { join } from 'node:path'
import { request } from 'undici'
import type { ImportedModel } from '../../schemas/model-import.ts'
import { eventually } from '../support/assertions/until.ts'
import { makeTinyLlm, requireLlm } from '../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { type NodeProcess, startNodeProcess } from '../support/servers/nodes/node-process.ts'
import { attemptsIn, type CohortTask } from '../support/servers/worlds/cohort-caller.ts'
import { requireLlamaCpp } from '../support/servers/worlds/llm-world.ts'
import { PROMPT, PromptWorld, REPLY } from '../support/servers/worlds/prompt-world.ts'

interface WatchedNode {
  nodeId: string
  process: NodeProcess
}

/** The clock offsets of nodes, in minutes. */
const CLOCKS: Record<string, number> = { stays: 4, 'takes-over': -4 }

/** Shifts the clock of a Node.js process. */
const clockOff = (minutes: number): string =>
  `--import data:text/javascript,${encodeURIComponent(
    `const now=Date.now,D=Date,by=${minutes * 60_000};D.now=()=>now()+by;globalThis.Date=new Proxy(D,{construct:(d,a)=>Reflect.construct(d,a.length?a:[D.now()])})`,
  )}`

const PRICE = 500
const GREEDY = { max_tokens: 16, temperature: 0 }
const CASES = ['offering', 'handed', 'taking', 'working', 'both'] as const
type Case = (typeof CASES)[number]

/**
 * Two nodes are killed at the same moment while five runs are active. Each run loses a node at a different point of a
 * hand-over, so the platform has to detect lost nodes only once. The clocks of the surviving nodes are eight minutes
 * apart.
 */
describe('nodes killed during cohort hand-overs', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  const stack = new AsyncDisposableStack()
  const over = Promise.withResolvers<void>()
  const runs = {} as Record<Case, CohortTask>
  const seen = {} as Record<Case, AnyBody>
  /** The minutes by which each node's clock was ahead at its last request, by node id. */
  const ahead = new Map<unknown, number>()
  let world: PromptWorld
  let isOver = false
  let llm: ImportedModel
  let stays: WatchedNode
  let takesOver: WatchedNode
  let victim: WatchedNode
  let other: WatchedNode

  before(requireLlm)
  before(requireLlamaCpp)
  before(async () => {
    world = stack.use(await PromptWorld.start())
    const path = join(folder.path, 'model')
    await makeTinyLlm(path, { layers: 4, hidden: 128, positions: 4_096 })
    llm = await world.on.import({ name: 'tiny-prompts', path, task: 'chat' })
    await world.on.api.database.db.updateTable('endpoint').set({ price_micro: PRICE }).execute()
    ;[stays, takesOver, victim, other] = (await Promise.all(
      ['stays', 'takes-over', 'victim', 'other'].map(startWatched),
    )) as [WatchedNode, WatchedNode, WatchedNode, WatchedNode]
    const { placement } = world.on.api.services.links
    await eventually('the models', () => {
      const [small, large] = [world.model, llm].map(({ model_key }) => placement.count(model_key).warm)
      return (small === 4 && large === 3) || undefined
    })
    await placeAll()
    const held = await holdAll()
    stack.use(await world.on.control())
    await eventually(
      'every run to reach its point',
      () => held.size === CASES.length || undefined,
      90_000,
    ).catch(async (err: Error) => {
      const states = await Promise.all(CASES.map((name) => world.cohorts.summary(runs[name])))
      throw new Error(`${[...held].join()}: ${JSON.stringify(states)}`, { cause: err })
    })
    await Promise.all([victim, other].map(({ process }) => process.kill('SIGKILL')))
    isOver = true
    over.resolve()
    for (const name of CASES) seen[name] = await world.cohorts.ended(runs[name], 200_000)
  })
  after(async () => {
    over.resolve()
    await stack.disposeAsync()
    folder[Symbol.dispose]()
  })

  async function startWatched(name: string): Promise<WatchedNode> {
    const { accountId } = world.on
    const env = {
      HEARTH_NODE_MEMORY_MB: '6000',
      HEARTH_NODE_PINNED: [world.model.model_key, ...(name === 'other' ? [] : [llm.model_key])].join(),
      NODE_OPTIONS: clockOff(CLOCKS[name] ?? 0),
    }
    const process = stack.use(await startNodeProcess(world.on.api, name, { accountId, env }))
    const { db } = world.on.api.database
    const row = await eventually(`node ${name}`, () =>
      db
        .selectFrom('node')
        .innerJoin('node_state', 'node_state.node_id', 'node.id')
        .select('node.id')
        .where('node.name', '=', name)
        .executeTakeFirst(),
    )
    return { nodeId: row.id, process }
  }

  /** Accepts the runs before anything can start, each with the nodes on which its stages should start. */
  async function placeAll(): Promise<void> {
    const both = [stays, takesOver]
    const places: Record<Case, [WatchedNode[], WatchedNode[]]> = {
      offering: [[victim, stays], [takesOver]],
      handed: [[victim, stays], [takesOver]],
      taking: [[stays], [victim, takesOver]],
      working: [[stays], [victim, takesOver]],
      both: [
        [other, ...both],
        [victim, ...both],
      ],
    }
    for (const name of CASES) {
      const [prefill, decode] = places[name]
      const plan = world.planOf({ prefill, decode, edge: { transports: ['direct'] } })
      const llmPlan = { prefill, decode, endpointId: llm.endpoint_id, stages: { decode: { input: GREEDY } } }
      runs[name] = await world.cohorts.run(name === 'taking' ? world.planOf(llmPlan) : plan)
      for (const [stage, [first]] of [
        ['prefill', prefill],
        ['decode', decode],
      ] as const)
        await world.on.api.database.db
          .updateTable('cohort_stage')
          .set({ planned_node_id: first!.nodeId })
          .where('cohort_id', '=', runs[name].cohort_id)
          .where('name', '=', stage)
          .execute()
    }
  }

  /** Holds each run at its point, just before a node reports it; returns the runs that have reached their points. */
  async function holdAll(): Promise<ReadonlySet<Case>> {
    const edge = async (name: Case) => (await world.cohorts.summary(runs[name])).edges[0].edge_id as string
    const places = new Map<string, Case>([
      [`${await edge('offering')}:transfer`, 'offering'],
      [`${await edge('handed')}:consume`, 'handed'],
      [`${await edge('taking')}:consume`, 'taking'],
      [`${await edge('both')}:consume`, 'both'],
    ])
    const held = new Set<Case>()
    world.on.api.holdRequests(async (path, headers) => {
      const signedAt = Number(headers['x-node-timestamp'])
      ahead.set(headers['x-node-id'], Math.round((signedAt - Date.now()) / 60_000))
      const [, token] = /\/leases\/([0-9a-f-]{36}):complete$/.exec(path) ?? []
      const isWorking = token !== undefined && (await isLeaseOf(token, 'working'))
      const name = isWorking ? 'working' : places.get(path.slice(path.lastIndexOf('/') + 1))
      if (!name || isOver) return
      held.add(name)
      // The last requests of the victims never arrive.
      await (name === 'offering' || name === 'handed' ? over.promise : new Promise(() => {}))
    })
    return held
  }

  async function isLeaseOf(token: string, name: Case): Promise<boolean> {
    const row = await world.on.api.database.db
      .selectFrom('lease')
      .innerJoin('cohort_stage', 'cohort_stage.id', 'lease.subject_id')
      .select('cohort_stage.name')
      .where('lease.token', '=', token)
      .where('cohort_stage.cohort_id', '=', runs[name].cohort_id)
      .executeTakeFirst()
    return row?.name === 'decode'
  }

  const edgeOf = (name: Case) => seen[name].edges[0]
  async function assertSaid(name: Case): Promise<void> {
    assert.equal(seen[name].status, 'succeeded', JSON.stringify(seen[name]))
    assert.equal((await world.cohorts.result(runs[name])).answer, REPLY)
  }

  it('are replaced as producers before the transfer, and the prompt is read again', async () => {
    await assertSaid('offering')
    const { prefill } = attemptsIn(seen.offering)
    assert.equal(prefill, 'succeeded 2')
    assert.equal(edgeOf('offering').producer_node_id, stays.nodeId)
  })

  it('are not replaced once their payload has arrived', async () => {
    await assertSaid('handed')
    assert.deepEqual(attemptsIn(seen.handed), { prefill: 'succeeded 1', decode: 'succeeded 1' })
    assert.equal(edgeOf('handed').attempt, 1)
  })

  it('are replaced as consumers after the transfer, without reading the prompt again (S3)', async () => {
    assert.equal(seen.taking.status, 'succeeded', JSON.stringify(seen.taking))
    assert.deepEqual(attemptsIn(seen.taking), { prefill: 'succeeded 1', decode: 'succeeded 2' })
    const replanned = (await world.cohorts.events(runs.taking)).find(
      ({ type }) => type === 'cohort.replanned',
    )
    assert.deepEqual(replanned?.data.moved, [
      {
        stage_id: 'decode',
        from: victim.nodeId,
        to: takesOver.nodeId,
        from_name: 'victim',
        to_name: 'takes-over',
      },
    ])
    const { attempt, consumer_node_id } = edgeOf('taking')
    assert.deepEqual([attempt, consumer_node_id], [2, takesOver.nodeId])
    const headers = { authorization: `Bearer ${world.on.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: llm.endpoint_id, messages: PROMPT, ...GREEDY })
    const url = `${world.on.api.baseUrl}/v1/chat/completions`
    const answer = (await (await request(url, { method: 'POST', headers, body })).body.json()) as AnyBody
    assert.equal((await world.cohorts.result(runs.taking)).answer, answer.choices[0].message.content)
  })

  it('are replaced while the model answers, from the payload that the producer still stores', async () => {
    await assertSaid('working')
    assert.deepEqual(attemptsIn(seen.working), { prefill: 'succeeded 1', decode: 'succeeded 2' })
    assert.equal(edgeOf('working').attempt, 2)
  })

  it('are both replaced when producer and consumer are lost', async () => {
    await assertSaid('both')
    assert.match(attemptsIn(seen.both)['prefill']!, /^succeeded [2-9]/)
    for (const side of ['producer_node_id', 'consumer_node_id'])
      assert.ok([stays.nodeId, takesOver.nodeId].includes(edgeOf('both')[side]))
  })

  it('are replaced by nodes whose clocks are eight minutes behind or ahead', async () => {
    assert.deepEqual(
      [stays, takesOver].map(({ nodeId }) => ahead.get(nodeId)),
      [CLOCKS['stays'], CLOCKS['takes-over']],
    )
    assert.deepEqual(
      [edgeOf('taking').producer_node_id, edgeOf('taking').consumer_node_id],
      [stays.nodeId, takesOver.nodeId],
    )
    const plan = world.planOf({ prefill: [takesOver], decode: [stays], edge: { transports: ['direct'] } })
    const { seen: other, edge } = await world.succeeded(await world.cohorts.run(plan))
    assert.deepEqual(attemptsIn(other), { prefill: 'succeeded 1', decode: 'succeeded 1' })
    assert.deepEqual([edge.attempt, edge.transport], [1, 'direct'])
  })

  it('are paid once per stage, whatever the number of attempts', async () => {
    for (const name of CASES) {
      const { by_purse } = (await world.cohorts.bookings(runs[name])).sums
      assert.equal(by_purse[`account:${world.on.accountId}`], -2 * PRICE, name)
    }
  })
})
