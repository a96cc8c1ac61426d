import assert from 'node:assert/strict'
import { createCohortActivities } from '../../../../activities/control/cohorts/cohorts.ts'
import type { NewCohortEdge, NewCohortStage } from '../../../../db/tables/cohorts.ts'
import { buildCohort, buildEdge, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { signedNode } from '../../../support/servers/nodes/signed-node.ts'

/** If a worker is killed before its workflow task is recorded, all local activities of that task run again. */
describe('settling a failed attempt', () => {
  let api: TestApi
  let lostNode: string
  let steps: ReturnType<typeof createCohortActivities>

  before(async () => {
    api = await startApi()
    lostNode = (await signedNode(api)).nodeId
    const { db, objects, catalog, config, log, now, temporal } = api.services
    steps = createCohortActivities({ db, objects, catalog, config, log, now, temporal })
  })
  after(() => api[Symbol.asyncDispose]())

  const HELD = { kind: 'embedding', state: 'consumed', sha256: 'a'.repeat(64), size_bytes: 4 } as const

  /** A chain of an encoder, a mapper and a classifier; the classifier is running on the node that is lost. */
  async function chain(edges: [Partial<NewCohortEdge>, Partial<NewCohortEdge>]) {
    const { db } = api.database
    const { accountId } = await api.account()
    const cohort = await buildCohort(db, accountId)
    const done = { status: 'succeeded', completed_at: new Date() } as const
    const specification = JSON.stringify({ max_attempts: 3, fallbacks: [], required: true })
    const build = (name: string, position: number, rest: Partial<NewCohortStage>) =>
      buildStage(db, cohort, { name, position, specification, node_id: lostNode, ...rest })
    const encoder = await build('encoder', 0, done)
    const mapper = await build('mapper', 1, done)
    const classifier = await build('classifier', 2, { status: 'running' })
    await buildEdge(db, [encoder, mapper], { name: 'first', ...edges[0] })
    await buildEdge(db, [mapper, classifier], { name: 'second', ...edges[1] })
    const settle = () =>
      steps.settleStage({ stageId: classifier.id, attempt: 1, code: 'node_lost', message: 'it was lost' })
    const rows = async () => {
      const stages = await db
        .selectFrom('cohort_stage')
        .select(['name', 'status', 'attempt'])
        .where('cohort_id', '=', cohort.id)
        .orderBy('position')
        .execute()
      const hands = await db
        .selectFrom('cohort_edge')
        .select(['state', 'attempt', 'sha256'])
        .where('cohort_id', '=', cohort.id)
        .orderBy('name')
        .execute()
      return {
        stages: stages.map(({ status, attempt }) => [status, attempt]),
        edges: hands.map(({ state, attempt, sha256 }) => [state, attempt, sha256 !== null]),
      }
    }
    return { encoder, mapper, classifier, settle, rows }
  }

  it('repeats the producers whose payloads were lost with the node, recursively', async () => {
    const lost = { ...HELD, payload_node_id: lostNode }
    const { encoder, mapper, settle, rows } = await chain([lost, lost])

    const settled = await settle()

    assert.deepEqual(settled, { verdict: 'again', repeat: [encoder.id, mapper.id] })
    assert.deepEqual(await rows(), {
      stages: [
        ['pending', 2],
        ['pending', 2],
        ['pending', 2],
      ],
      edges: [
        ['planned', 2, false],
        ['planned', 2, false],
      ],
    })
  })

  it('hands a repeated producer the values that the platform still stores', async () => {
    const value = {
      kind: 'json',
      state: 'consumed',
      payload: Buffer.from('1'),
      sha256: 'b'.repeat(64),
    } as const
    const { mapper, settle, rows } = await chain([value, { ...HELD, payload_node_id: lostNode }])

    assert.deepEqual(await settle(), { verdict: 'again', repeat: [mapper.id] })
    assert.deepEqual(await rows(), {
      stages: [
        ['succeeded', 1],
        ['pending', 2],
        ['pending', 2],
      ],
      edges: [
        ['planned', 2, true],
        ['planned', 2, false],
      ],
    })
  })

  it('returns the same producers for a repeated call, and changes nothing', async () => {
    const lost = { ...HELD, payload_node_id: lostNode }
    const { settle, rows } = await chain([lost, lost])

    const first = await settle()
    const after = await rows()

    assert.deepEqual(await settle(), first)
    assert.deepEqual(await rows(), after)
  })

  it('takes effect only once when calls are concurrent', async () => {
    const lost = { ...HELD, payload_node_id: lostNode }
    const { settle, rows } = await chain([lost, lost])

    const settled = await Promise.all([settle(), settle(), settle()])

    assert.deepEqual(settled[1], settled[0])
    assert.deepEqual(settled[2], settled[0])
    assert.deepEqual(
      (await rows()).stages.map(([, attempt]) => attempt),
      [2, 2, 2],
    )
  })
})
