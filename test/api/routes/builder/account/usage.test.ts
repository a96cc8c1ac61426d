import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as cohortRepository from '../../../../../db/repositories/cohorts/cohorts.ts'
import * as cohortEndingRepository from '../../../../../db/repositories/cohorts/endings.ts'
import { foldUsage } from '../../../../../db/repositories/platform/usage.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { hold } from '../../../../../domain/ledger.ts'
import { until } from '../../../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { buildCohort, buildStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { ChatApi, openStream } from '../../../../support/servers/chat-api.ts'

const BUILDER = '/api/builder/v1'
const GROUPS = ['day', 'endpoint', 'key', 'model'] as const
const PRICES = [0, 1_001, 2_500_003]
const REQUESTS = 60
/** The tokens of each cohort stage. */
const STAGE = { in: 5, out: 6 }

const spentIn = (months: readonly { key_id: string; spent_micro: number }[], key: string): number =>
  months.reduce((sum, { key_id, spent_micro }) => sum + (key_id === key ? spent_micro : 0), 0)

interface Row {
  group: string | null
  name: string | null
  requests: number
  failed: number
  tokens_in: number
  tokens_out: number
  cost_micro: number
}

describe("an account's usage", () => {
  let chat: ChatApi
  let endpoints: EndpointRow[]
  before(async () => {
    chat = await ChatApi.start()
    endpoints = []
    for (const price_micro of PRICES) endpoints.push(await chat.warm({ ...PUBLIC_LISTING, price_micro }))
  })
  after(() => chat?.[Symbol.asyncDispose]())

  const read = async (path: string, key: string) => {
    const { status, body, text } = await chat.api.call('GET', `${BUILDER}${path}`, { key })
    assert.equal(status, 200, text)
    return body
  }
  const usage = async (key: string, group: string): Promise<Row[]> =>
    (await read(`/usage?group=${group}`, key)).rows
  const sum = (
    rows: readonly Row[],
    column: 'requests' | 'failed' | 'tokens_in' | 'tokens_out' | 'cost_micro',
  ) => rows.reduce((total, row) => total + row[column], 0)
  const settled = (accountId: string) =>
    until(async () => {
      const { db } = chat.api.database
      const open = db
        .selectFrom('task')
        .select('id')
        .where('account_id', '=', accountId)
        .where('completed_at', 'is', null)
      return (await open.where('status', '<>', 'queued').execute()).length === 0
    })

  /** Sends one request of a random kind, and returns what it should count. */
  async function request(key: string): Promise<{ failed: number; in: number; out: number }> {
    const endpoint = endpoints[Math.floor(Math.random() * endpoints.length)]!
    const tokens = 1 + Math.floor(Math.random() * 9)
    const input = { messages: [{ role: 'user', content: 'hi' }] }
    switch (Math.floor(Math.random() * 5)) {
      case 0:
        await chat.chat(endpoint.id, { fake: { tokens } }, key)
        return { failed: 0, in: 12, out: tokens }
      case 1: {
        const stream = await openStream({ api: chat.api, caller: { key } }, endpoint.id, { fake: { tokens } })
        await stream.body.dump()
        return { failed: 0, in: 12, out: tokens }
      }
      case 2:
        await chat.chat(endpoint.id, { fake: { status: 500 } }, key)
        return { failed: 1, in: 0, out: 0 }
      case 3: {
        const path = `${BUILDER}/endpoints/${endpoint.id}/infer`
        const { body } = await chat.api.call('POST', path, {
          key,
          body: { input: { ...input, fake: { tokens } } },
        })
        assert.equal(body.status, 'succeeded')
        return { failed: 0, in: 12, out: tokens }
      }
      default: {
        const path = `${BUILDER}/endpoints/${endpoint.id}/infer:async`
        const { body } = await chat.api.call('POST', path, { key, body: { input } })
        const isCancelled = Math.random() < 0.5
        if (isCancelled) await chat.api.call('POST', `${BUILDER}/tasks/${body.task_id}:cancel`, { key })
        return { failed: Number(isCancelled), in: 0, out: 0 }
      }
    }
  }

  /** Runs a cohort of two paid stages to its end; it succeeds or is cancelled. */
  async function runCohort(accountId: string, keyId: string, status: 'succeeded' | 'failed'): Promise<void> {
    const { db } = chat.api.database
    const cohort = await buildCohort(db, accountId, {
      request: JSON.stringify({ stages: [], edges: [], outputs: [] }),
    })
    await db
      .updateTable('task')
      .set({ key_id: keyId, price_micro: 0, surface: 'cohort' })
      .where('id', '=', cohort.task_id)
      .execute()
    await db.deleteFrom('ledger_transfer').where('task_id', '=', cohort.task_id).execute()
    await db.transaction().execute(async (trx) => {
      for (const [i, priceMicro] of [7, 70_001].entries()) {
        const stage = { price_micro: priceMicro, endpoint_id: endpoints[i + 1]!.id, model_key: 'staged' }
        const work = {
          node_id: newId(),
          result: Buffer.from('{}'),
          tokens_in: STAGE.in,
          tokens_out: STAGE.out,
        }
        const done = { status: 'succeeded' as const, ...work }
        const { id } = await buildStage(trx, cohort, { ...stage, ...done })
        await cohortRepository.bookTransfers(trx, id, hold({ accountId, priceMicro: priceMicro + 5 }))
      }
      const ending =
        status === 'succeeded' ? { status } : { status, fault: { code: 'no_node', message: 'none' } }
      await cohortEndingRepository.endCohort(trx, cohort.id, ending as never, new Date())
    })
  }

  it('equals the ledger to the micro-credit after random traffic, under every grouping', async () => {
    const { accountId, key } = await chat.api.account()
    const keys = [key, await chat.api.key(accountId, 'operator'), await chat.api.key(accountId, 'operator')]
    const other = await chat.api.account()
    const sent = await Promise.all(
      Array.from({ length: REQUESTS }, (_, i) => request(keys[i % keys.length]!)),
    )
    await Promise.all(Array.from({ length: 5 }, () => request(other.key)))
    const keyId = (await read('/me', key)).key.id
    await runCohort(accountId, keyId, 'succeeded')
    await runCohort(accountId, keyId, 'failed')
    await settled(accountId)

    const { db } = chat.api.database
    const lines = await db
      .selectFrom('ledger_line')
      .select('amount_micro')
      .where('purse', '=', `account:${accountId}`)
      .execute()
    const spent = 0 - lines.reduce((total, { amount_micro }) => total + amount_micro, 0)
    const failed = sent.reduce((total, one) => total + one.failed, 0)
    assert.ok(spent > 0)
    for (const group of GROUPS) {
      // Each of the four stages counts once per endpoint and model; each of the two cohorts counts once per day and
      // key.
      const isOfStages = group === 'endpoint' || group === 'model'
      const expected = {
        requests: REQUESTS + (isOfStages ? 4 : 2),
        failed: isOfStages ? failed : failed + 1,
        tokens_in: sent.reduce((total, one) => total + one.in, 4 * STAGE.in),
        tokens_out: sent.reduce((total, { out }) => total + out, 4 * STAGE.out),
        cost_micro: spent,
      }
      const rows = await usage(key, group)
      const sums = Object.fromEntries(
        (Object.keys(expected) as (keyof typeof expected)[]).map((column) => [column, sum(rows, column)]),
      )
      assert.deepEqual(sums, expected, group)
    }
    // A stage's cost is booked to its own endpoint, though its task belongs to an output's endpoint.
    const { rows: booked } = await sql<{ group: string; cost_micro: number }>`
      select work.endpoint_id as "group", -sum(amount_micro)::bigint as cost_micro
      from ledger_line line join (
        select id, endpoint_id from task union all select id, endpoint_id from cohort_stage
      ) work on work.id = line.task_id
      where purse = ${`account:${accountId}`} group by 1 order by 1`.execute(db)
    const byEndpoint = (await usage(key, 'endpoint')).filter(({ cost_micro }) => cost_micro > 0)
    assert.deepEqual(
      byEndpoint
        .map(({ group, cost_micro }) => ({ group, cost_micro }))
        .toSorted((a, b) => String(a.group).localeCompare(String(b.group))),
      booked.filter(({ cost_micro }) => cost_micro > 0),
    )
    // Key budgets use counts that are folded separately from the tasks.
    await Promise.all([foldUsage(db), foldUsage(db)])
    await foldUsage(db)
    const months = await db.selectFrom('key_month').select(['key_id', 'spent_micro']).execute()
    for (const { group, cost_micro } of await usage(key, 'key'))
      if (group !== null) assert.equal(spentIn(months, group), cost_micro)
    const { entries, balance, period } = await read('/ledger?limit=100', key)
    assert.equal(balance.micro, -spent)
    assert.equal(period.spent_micro, spent)
    assert.equal(
      entries.reduce((total: number, { amount_micro }: { amount_micro: number }) => total + amount_micro, 0),
      -spent,
    )
    assert.equal((await read('/me', key)).balance_credits, -spent / 1_000_000)
  })

  it('is grouped by endpoint, key and model, with names, and by day', async () => {
    const { accountId, key } = await chat.api.account()
    const second = await chat.api.key(accountId, 'operator')
    const [, paid, dear] = endpoints as [EndpointRow, EndpointRow, EndpointRow]
    await chat.chat(paid.id, { fake: { tokens: 3 } }, key)
    await chat.chat(dear.id, { fake: { tokens: 4 } }, second)
    await chat.chat(dear.id, { fake: { status: 500 } }, second)

    const byEndpoint = await usage(key, 'endpoint')
    const byKey = await usage(key, 'key')
    const byModel = await usage(key, 'model')
    const byDay = await usage(key, 'day')

    const of = (rows: readonly Row[], group: string) => rows.find((row) => row.group === group)
    assert.deepEqual(of(byEndpoint, dear.id), {
      group: dear.id,
      name: dear.name,
      requests: 2,
      failed: 1,
      tokens_in: 12,
      tokens_out: 4,
      cost_micro: 2_500_003,
      cost_credits: 2.500003,
    })
    assert.deepEqual(
      byKey.map(({ name, requests, cost_micro }) => `${name} ${requests} ${cost_micro}`).toSorted(),
      ['admin 1 1001', 'operator 2 2500003'],
    )
    assert.equal(of(byModel, paid.model_key)?.cost_micro, 1_001)
    assert.equal(sum(byDay, 'requests'), 3)
    assert.equal(byDay[0]?.group, new Date().toISOString().slice(0, 10))
    const tasks = (await read('/tasks', key)).tasks
    assert.deepEqual(
      tasks.map((task: Record<string, unknown>) => [task['tokens_in'], task['tokens_out']]),
      [
        [null, null],
        [12, 4],
        [12, 3],
      ],
    )
    assert.deepEqual(await usage((await chat.api.account()).key, 'endpoint'), [])
  })
})
