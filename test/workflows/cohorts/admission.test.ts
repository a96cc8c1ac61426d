import assert from 'node:assert/strict'
import type { Kysely } from 'kysely'
import { createCohortActivities } from '../../../activities/control/cohorts/cohorts.ts'
import type { Database } from '../../../db/tables.ts'
import { newId } from '../../../domain/ids.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { CohortWorld } from '../../support/servers/worlds/cohort-world.ts'

describe('cohort admission', function () {
  this.timeout(60_000)
  let world: CohortWorld
  before(async () => {
    world = await CohortWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())
  const words = (to: string, path = '/instances') => ({
    from: { stage_id: 'input', path: '/words' },
    to: { stage_id: to, path },
  })
  /** Builds a cohort whose stages all succeeded before it was cancelled. */
  async function finished(plan: PlanRequest, input: object): Promise<AnyBody> {
    const accepted = await world.cohorts.run(plan, input)
    const { db } = world.on.api.database
    await db
      .updateTable('cohort_stage')
      .set({
        status: 'succeeded',
        result: Buffer.from('{"predictions":["old"]}'),
        output_kept: true,
        node_id: world.node.nodeId,
      })
      .where('cohort_id', '=', accepted.cohort_id)
      .execute()
    const { status } = await world.cohorts.call('POST', `/api/builder/v1/tasks/${accepted.task_id}:cancel`)
    assert.equal(status, 200)
    return accepted
  }

  it('reports what the input contains instead of a value that an edge needs', async () => {
    const { id } = await world.on.endpoint({ name: `lacking-${newId()}` })
    const refusal = async (path: string, input: object) => {
      const edge = {
        edge_id: 'seventh',
        from: { stage_id: 'input', path },
        to: { stage_id: 'a', path: '/x' },
      }
      const plan = { stages: [{ stage_id: 'a', endpoint_id: id }], edges: [edge] }
      const { status, body } = await world.cohorts.call('POST', '/api/v1/cohorts:run', { plan, input })
      assert.equal(status, 422, JSON.stringify(body))
      assert.deepEqual(body.detail[0].loc, ['body', 'input'])
      return body.detail[0].msg.replace(/^has no value at "([^"]*)", which edge "seventh" reads: /, '$1 | ')
    }

    assert.equal(
      await refusal('/predictions/7', { predictions: [1, 2, 3] }),
      '/predictions/7 | "/predictions" is a list of 3',
    )
    assert.equal(await refusal('/mial', { mail: 'x', 'a/b': 1 }), '/mial | it has "mail", "a/b"')
    assert.equal(await refusal('/a~1b/c', { 'a/b': {} }), '/a~1b/c | "/a~1b" is empty')
    assert.equal(
      await refusal('/mail/0', { mail: 'secret' }),
      '/mail/0 | "/mail" is neither an object nor a list',
    )
  })

  it('rejects a budget that a fallback could exceed', async () => {
    const cheap = await world.on.endpoint({ name: `cheap-${newId()}` }, { price_micro: 1_000_000 })
    const dear = await world.on.endpoint({ name: `dear-${newId()}` }, { price_micro: 100_000_000 })
    const plan = {
      stages: [{ stage_id: 'a', endpoint_id: cheap.id, fallbacks: [dear.id] }],
      edges: [words('a')],
      constraints: { max_cost_credits: 5 },
    }
    const { body } = await world.cohorts.call('POST', '/api/v1/cohorts:plan', plan)
    const held = body.feasible ? await world.cohorts.run(plan, { words: ['x'] }) : undefined
    const holds = held
      ? await world.on.api.database.db
          .selectFrom('ledger_transfer')
          .innerJoin('cohort_stage', 'cohort_stage.id', 'ledger_transfer.task_id')
          .select(['kind', 'amount_micro'])
          .where('cohort_id', '=', held.cohort_id)
          .execute()
      : []
    assert.ok(
      holds.every(({ amount_micro }) => Number(amount_micro) <= 5_000_000),
      JSON.stringify(holds),
    )
  })

  it('takes over a stage with the same request, even if prices now order its endpoints differently', async () => {
    const one = await world.on.endpoint({ name: `one-${newId()}` }, { price_micro: 2_000_000 })
    const two = await world.on.endpoint({ name: `two-${newId()}` }, { price_micro: 1_000_000 })
    const plan: PlanRequest = {
      stages: [{ stage_id: 'a', endpoint_id: one.id, fallbacks: [two.id] }],
      edges: [words('a')],
      constraints: { objective: 'cost' },
    }
    const before = await finished(plan, { words: ['x'] })
    assert.equal((await world.cohorts.stage(before, 'a')).endpoint_id, two.id)
    await world.on.api.database.db
      .updateTable('endpoint')
      .set({ price_micro: 3_000_000 })
      .where('id', '=', two.id)
      .execute()

    const again = await world.cohorts.run(plan, { words: ['x'] }, { resume_of: before.cohort_id })
    const { endpoint_id, status, attempt } = await world.cohorts.stage(again, 'a')
    assert.deepEqual([endpoint_id, status, attempt], [one.id, 'succeeded', 0])
  })

  it("limits an event's data to 2 KB", async () => {
    const { id } = await world.on.endpoint({ name: `many-${newId()}` })
    const stages = Array.from({ length: 60 }, (_, i) => ({
      stage_id: `s${i}-`.padEnd(63, 'x'),
      endpoint_id: id,
    }))
    const plan: PlanRequest = { stages, edges: stages.map(({ stage_id }) => words(stage_id)) }
    const before = await finished(plan, { words: ['x'] })
    const again = await world.cohorts.run(plan, { words: ['x'] }, { resume_of: before.cohort_id })
    const { body } = await world.cohorts.call('GET', `/api/v1/tasks/${again.task_id}/cohort/events`)
    for (const { type, data } of body.events)
      assert.ok(Buffer.byteLength(JSON.stringify(data)) <= 2_048, `${type}: ${JSON.stringify(data).length}`)
  })

  it('pages through its events to the last one, and later returns newer ones', async () => {
    const { id } = await world.on.endpoint({ name: `paged-${newId()}` })
    const plan: PlanRequest = { stages: [{ stage_id: 'a', endpoint_id: id }], edges: [words('a')] }
    const accepted = await world.cohorts.run(plan, { words: ['x'] })
    const page = async (query: string) =>
      (await world.cohorts.call('GET', `/api/v1/tasks/${accepted.task_id}/cohort/events?${query}`)).body
    const { events: begun, next_cursor: none } = await page('limit=1')
    assert.deepEqual([begun.length, begun[0].type, none], [1, 'cohort.queued', null])

    await world.cohorts.cancel(accepted)
    const seen = []
    let cursor: string | null = begun[0].event_id
    while (cursor) {
      const { events, next_cursor }: AnyBody = await page(`limit=1&cursor=${cursor}`)
      seen.push(...events.map(({ type }: AnyBody) => type))
      cursor = next_cursor
    }
    const { events, next_cursor } = await page('')
    assert.deepEqual(
      ['cohort.queued', ...seen],
      events.map(({ type }: AnyBody) => type),
    )
    assert.ok(seen.includes('cohort.cancelled'))
    assert.equal(next_cursor, null)
  })

  it("accepts any name, although its workflow's summary fits only part of it", async () => {
    const { id } = await world.on.endpoint({ name: `named-${newId()}` })
    const stages = [{ stage_id: 'a', endpoint_id: id }]
    for (const name of ['\u{1F600}'.repeat(100), `x${'\u{1F600}'.repeat(99)}`, '\u4E00'.repeat(200)])
      await world.cohorts.run({ name, stages, edges: [] }, {})
  })

  it('rejects a run whose edge replaces the whole input with a string', async () => {
    const { id } = await world.on.endpoint({ name: `whole-${newId()}` })
    const plan: PlanRequest = { stages: [{ stage_id: 'a', endpoint_id: id }], edges: [words('a', '')] }
    const { status, body } = await world.cohorts.call('POST', '/api/v1/cohorts:run', {
      plan,
      input: { words: 'a text' },
    })
    assert.notEqual(status, 202, JSON.stringify(body))
  })

  it("does not block the gateway's event loop with many templates of a large value", async () => {
    const { id } = await world.on.endpoint({ name: `large-${newId()}` })
    const edges = Array.from({ length: 256 }, (_, i) => ({
      from: { stage_id: 'input', path: '' },
      to: { stage_id: 'a', path: `/k${i}`, template: '{{value}}' },
    }))
    const plan: PlanRequest = { stages: [{ stage_id: 'a', endpoint_id: id }], edges }
    const started = performance.now()
    const { status, body } = await world.cohorts.call('POST', '/api/v1/cohorts:run', {
      plan,
      input: { x: 'y'.repeat(1_000_000) },
    })
    const ms = performance.now() - started
    assert.equal(status, 422, JSON.stringify(body))
    assert.ok(ms < 5_000, `${Math.round(ms)} ms`)
  })

  describe('with a graph of 3 MB', () => {
    const MAX_BYTES = 100_000
    const WAITING = 30
    const text = (bytes: number) => 'x'.repeat(bytes)
    let run: Awaited<ReturnType<typeof world.cohorts.run>>
    let stages: { id: string; name: string }[]
    before(async () => {
      const { id } = await world.on.endpoint({ name: `heavy-${newId()}` })
      const names = Array.from({ length: WAITING }, (_, i) => `w${i}`)
      const plan: PlanRequest = {
        stages: [
          { stage_id: 'a', endpoint_id: id, input: { instances: [text(2_500_000)] } },
          {
            stage_id: 'b',
            endpoint_id: id,
            required: false,
            default_output: { predictions: [text(60_000)] },
          },
          ...names.map((stage_id) => ({ stage_id, endpoint_id: id, input: { instances: [stage_id] } })),
        ],
        edges: [words('b'), ...names.map((name) => templated(name))],
      }
      run = await world.cohorts.run(plan, { words: [text(500_000)] })
      stages = await world.on.api.database.db
        .selectFrom('cohort_stage')
        .select(['id', 'name'])
        .where('cohort_id', '=', run.cohort_id)
        .orderBy('position')
        .execute()
    })
    const templated = (to: string) => ({
      from: { stage_id: 'a', path: '/predictions' },
      to: { stage_id: to, path: '/text', template: `{{value}}${text(9_900)}` },
    })
    const waiting = () =>
      stages.filter(({ name }) => name.startsWith('w')).map(({ id }) => ({ stageId: id, avoid: [] }))
    const activities = (db: Kysely<Database>) => {
      const { objects, catalog, config, log, now, temporal } = world.on.api.services
      return createCohortActivities({ db, objects, catalog, config, log, now, temporal })
    }

    it("reads the graph without its values everywhere except in a stage's claim", async () => {
      const { services, database } = world.on.api
      const reads = countReads(database.db)
      const { db } = services
      Object.assign(services, { db: reads.db })
      const received = async (what: string, call: () => Promise<unknown>) => {
        const before = { ...reads.seen }
        await call()
        const bytes = reads.seen.bytes - before.bytes
        assert.ok(reads.seen.queries > before.queries && bytes < MAX_BYTES, `${what}: ${bytes} bytes`)
      }
      const get = (path: string) => async () => {
        const { status } = await world.cohorts.call('GET', `/api/v1/tasks/${run.task_id}/cohort${path}`)
        assert.equal(status, 200)
      }
      try {
        const steps = activities(reads.db)
        const [a, b] = ['a', 'b'].map((name) => stages.find((stage) => stage.name === name)!.id)
        await received('openCohort', () => steps.openCohort({ cohortId: run.cohort_id }))
        await received('callStage', async () => {
          const { verdict } = await steps.callStage({ cohortId: run.cohort_id, stageId: a!, avoid: [] })
          assert.equal(verdict, 'called')
        })
        await received('findRoom', () => steps.findRoom({ cohortId: run.cohort_id, stages: waiting() }))
        await received('cancelStages', () => steps.cancelStages({ stageIds: [b!] }))
        await received('GET cohort', get(''))
        await received('GET cohort/events', get('/events'))
        await received('cancel', () => world.cohorts.cancel(run))
      } finally {
        Object.assign(services, { db })
      }
    })
  })
})

/** Counts a database's queries, and the bytes of their rows as JSON. */
function countReads(db: Kysely<Database>) {
  const seen = { queries: 0, bytes: 0 }
  const counted = db.withPlugin({
    transformQuery: ({ node }) => {
      seen.queries += 1
      return node
    },
    transformResult: ({ result }) => {
      seen.bytes += JSON.stringify(result.rows).length
      return Promise.resolve(result)
    },
  })
  return { db: counted, seen }
}
