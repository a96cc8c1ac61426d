import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('a cohort that takes over finished stages', function () {
  this.timeout(120_000)
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = async (path: string, body?: object): Promise<AnyBody> => {
    const answer = await world.api.call(body ? 'POST' : 'GET', `/api/v1${path}`, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body
  }
  const ended = async ({ task_id }: AnyBody): Promise<AnyBody> => {
    await until(async () => ['succeeded', 'failed'].includes((await world.task(task_id)).status))
    return call(`/tasks/${task_id}/cohort`)
  }
  const rowsOf = ({ cohort_id }: AnyBody) =>
    world.api.database.db
      .selectFrom('cohort_edge')
      .select(['name', 'payload', 'payload_key', 'size_bytes'])
      .where('cohort_id', '=', cohort_id)
      .orderBy('name')
      .execute()
  const stored = () => Array.fromAsync(world.api.services.objects.list(`cohorts/${world.accountId}/`))

  it('stores large values in the object store and small ones in its rows, as a first run does', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'kept' })
    const value = (edge_id: string, from: string, to: string, path: string) => ({
      edge_id,
      from: { stage_id: from, path },
      to: { stage_id: to, path: `/instances/${edge_id === 'small' ? 1 : 0}` },
    })
    const plan = (wait_s: number): PlanRequest => ({
      stages: [
        { stage_id: 'first', endpoint_id: endpoint.id },
        { stage_id: 'second', endpoint_id: endpoint.id },
        { stage_id: 'slow', endpoint_id: endpoint.id, input: { wait_s } },
        { stage_id: 'third', endpoint_id: endpoint.id, input: { instances: ['', ''] } },
      ],
      edges: [
        { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'first', path: '/instances' } },
        value('within', 'first', 'second', '/predictions/0'),
        value('large', 'second', 'third', '/predictions/0'),
        value('small', 'first', 'third', '/predictions/1'),
        { from: { stage_id: 'slow', path: '/waited_s' }, to: { stage_id: 'third', path: '/other' } },
      ],
      outputs: [{ name: 'out', stage_id: 'third', path: '/predictions' }],
    })
    const input = { words: ['x'.repeat(300_000), 'y'] }
    const first = await call('/cohorts:run', { plan: plan(600), input })
    await until(async () => {
      const { stages } = await call(`/tasks/${first.task_id}/cohort`)
      return stages.filter(({ status }: AnyBody) => status === 'succeeded').length === 2
    }, 60_000)
    await world.api.call('POST', `/api/builder/v1/tasks/${first.task_id}:cancel`, { key: world.key })
    await until(async () => (await stored()).length === 0)

    const again = await call('/cohorts:run', { plan: plan(0), input, resume_of: first.cohort_id })
    const [large, small, within] = (await rowsOf(again)).filter(({ name }) => !name.includes('-'))
    assert.deepEqual([large?.payload, Number(large?.size_bytes)], [null, 300_002])
    assert.match(large?.payload_key ?? '', new RegExp(`^cohorts/${world.accountId}/${again.cohort_id}/`))
    assert.deepEqual([small?.payload?.toString(), small?.payload_key], ['"y"', null])
    assert.deepEqual([within?.payload, within?.payload_key], [null, null], 'no stage needs it any more')
    const seen = await ended(again)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt }: AnyBody) => [stage_id, attempt]),
      [
        ['first', 0],
        ['slow', 1],
        ['second', 0],
        ['third', 1],
      ],
    )
    // assert.deepEqual would print both values if they differ.
    assert.ok(isDeepStrictEqual((await world.task(again.task_id)).result.out, input.words))
    assert.equal(seen.edges.find(({ name }: AnyBody) => name === 'large').transport, 'relay')
    await until(async () => (await stored()).length === 0)
  })

  it('pays once for what it takes over, whichever earlier failed or successful run computed it first', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const owner = await world.api.account()
    const { db } = world.api.database
    await db.updateTable('node').set({ account_id: owner.accountId }).where('id', '=', node.nodeId).execute()
    const { id } = await world.endpoint({ name: 'priced' }, { price_micro: 1_000 })
    const plan = (wait_s: number): PlanRequest => ({
      stages: [
        { stage_id: 'first', endpoint_id: id, input: { instances: ['x'] } },
        { stage_id: 'second', endpoint_id: id, input: { wait_s } },
      ],
      edges: [
        { from: { stage_id: 'first', path: '/predictions' }, to: { stage_id: 'second', path: '/instances' } },
      ],
    })
    const paidBy = async ({ cohort_id }: AnyBody) => {
      const { rows } = await sql<{ name: string; kinds: string[]; sum: number; owner: number }>`
        select stage.name, array_agg(kind order by kind) as kinds,
          sum(case when from_purse like 'account:%' then amount_micro when to_purse like 'account:%' then -amount_micro
            else 0 end)::int as sum,
          sum(case when to_purse = ${`owner:${owner.accountId}`} then amount_micro else 0 end)::int as owner
        from cohort_stage stage join ledger_transfer l on l.task_id = stage.id
        where cohort_id = ${cohort_id} group by stage.name order by stage.name`.execute(db)
      return Object.fromEntries(rows.map(({ name, sum: paid, owner: earned }) => [name, [paid, earned]]))
    }
    const cutShort = async (run: AnyBody) => {
      await until(async () => {
        const { stages } = await call(`/tasks/${run.task_id}/cohort`)
        return stages.find(({ stage_id }: AnyBody) => stage_id === 'first').status === 'succeeded'
      }, 60_000)
      await world.api.call('POST', `/api/builder/v1/tasks/${run.task_id}:cancel`, { key: world.key })
      return run
    }

    const first = await cutShort(await call('/cohorts:run', { plan: plan(600), input: {} }))
    const resume = (of: AnyBody, wait_s: number) =>
      call('/cohorts:run', { plan: plan(wait_s), input: {}, resume_of: of.cohort_id })
    const again = await cutShort(await resume(first, 600))
    const third = await resume(again, 0)
    assert.equal((await ended(third)).status, 'succeeded')
    const fourth = await resume(first, 0)
    assert.equal((await ended(fourth)).status, 'succeeded')

    assert.deepEqual(await paidBy(first), { first: [0, 0], second: [0, 0] })
    assert.deepEqual(await paidBy(again), { first: [0, 0], second: [0, 0] })
    assert.deepEqual(await paidBy(third), { first: [1_000, 800], second: [1_000, 800] })
    assert.deepEqual(await paidBy(fourth), { second: [1_000, 800] })
  })

  it('does not rerun the producers that its finished stages continued without', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'panel' })
    const plan = (wait_s: number): PlanRequest => ({
      stages: [
        { stage_id: 'fast', endpoint_id: id },
        { stage_id: 'before', endpoint_id: id },
        { stage_id: 'slow', endpoint_id: id, input: { wait_s: 600 } },
        { stage_id: 'judge', endpoint_id: id, input: { instances: ['', ''] }, quorum: 1 },
        { stage_id: 'tail', endpoint_id: id, input: { instances: [''], wait_s } },
      ],
      edges: [
        { from: { stage_id: 'fast', path: '/predictions' }, to: { stage_id: 'judge', path: '/instances/0' } },
        { from: { stage_id: 'before', path: '/predictions' }, to: { stage_id: 'slow', path: '/instances' } },
        { from: { stage_id: 'slow', path: '/predictions' }, to: { stage_id: 'judge', path: '/instances/1' } },
        { from: { stage_id: 'judge', path: '/predictions' }, to: { stage_id: 'tail', path: '/instances/0' } },
      ],
    })
    const states = ({ stages }: AnyBody) =>
      stages.map(({ stage_id, status, attempt }: AnyBody) => `${stage_id} ${status} ${attempt}`)
    const first = await call('/cohorts:run', { plan: plan(600), input: {} })
    await until(async () => {
      const { stages } = await call(`/tasks/${first.task_id}/cohort`)
      return stages.some(({ stage_id, status }: AnyBody) => stage_id === 'judge' && status === 'succeeded')
    }, 60_000)
    await world.api.call('POST', `/api/builder/v1/tasks/${first.task_id}:cancel`, { key: world.key })

    const again = await call('/cohorts:run', { plan: plan(0), input: {}, resume_of: first.cohort_id })
    const seen = await ended(again)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(states(seen), [
      'fast succeeded 0',
      'before succeeded 0',
      'slow skipped 0',
      'judge succeeded 0',
      'tail succeeded 1',
    ])
  })
})
