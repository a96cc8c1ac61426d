import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import { newId } from '../../domain/ids.ts'
import { until } from '../support/assertions/until.ts'
import type { Answer, AnyBody } from '../support/servers/api.ts'
import { ParallelWorld } from './parallel-calls.ts'
import { SERVED, type ServedRoute } from './routes.ts'

const PARALLEL = 8
const MUTATING = SERVED.filter(({ route: { method } }) => method !== 'GET')
/** Activating the kill switch would block all later calls. */
const LEFT_OUT = new Set(['activateKillSwitch'])

describe('parallel requests', () => {
  let world: ParallelWorld
  before(async () => {
    world = await ParallelWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())

  type PreparedCall = Awaited<ReturnType<ParallelWorld['calls'][string]>>

  const prepare = async ({ route }: ServedRoute): Promise<PreparedCall> =>
    (await world.calls[route.operationId]?.()) ?? { ...(route.body && { body: {} }) }

  function send(
    { route, path }: ServedRoute,
    prepared: PreparedCall,
    key?: string,
  ): Promise<Answer<AnyBody>> {
    const { params = {}, query = '', ...call } = prepared
    const url = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => params[name] ?? newId())
    const headers = { ...call.headers, ...(key !== undefined && { 'idempotency-key': key }) }
    return world.api.call(route.method, url + query, { ...call, headers })
  }

  const times = <T>(make: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: PARALLEL }, make))

  for (const served of MUTATING) {
    const { operationId, idempotent } = served.route
    if (LEFT_OUT.has(operationId)) continue
    it(`never fail with a 5xx for ${operationId}, whether identical or different`, async () => {
      const answers: Answer<AnyBody>[] = []
      for (const isKeyed of idempotent ? [false, true] : [false]) {
        const [same, different] = [await prepare(served), await times(() => prepare(served))]
        const key = isKeyed ? randomUUID() : undefined
        const identical = await times(() => send(served, same, key))
        if (isKeyed) {
          const [first] = identical
          for (const { text } of identical) assert.equal(text, first?.text)
        }
        const others = different.map((call) => send(served, call, isKeyed ? randomUUID() : undefined))
        answers.push(...identical, ...(await Promise.all(others)))
      }
      for (const { status, text } of answers) assert.ok(status < 500, `${status} ${text}`)
      const isKnown = operationId in world.calls
      assert.ok(isKnown || !idempotent, 'an idempotent operation needs a call that succeeds')
      if (idempotent) for (const { status, text } of answers) assert.ok(status < 300, `${status} ${text}`)
    })
  }

  it('can repeat a run, resume it and credit its account without a 5xx', async () => {
    const byId = (id: string): ServedRoute => {
      const served = SERVED.find(({ route }) => route.operationId === id)
      assert.ok(served, id)
      return served
    }
    const [again, resume, account] = ['repeatTrainingRun', 'resumeTrainingRun', 'giveAccountCredits'].map(
      byId,
    )
    assert.ok(again && resume && account)
    const paused = await prepare(resume)
    const repeated = { ...(await prepare(again)), params: paused.params ?? {} }
    const credits = await prepare(account)
    const answers = await times(() =>
      Promise.all([
        send(again, repeated, randomUUID()),
        send(resume, paused),
        send(account, credits, randomUUID()),
      ]),
    )
    for (const { status, text } of answers.flat()) assert.ok(status < 500, `${status} ${text}`)
  })

  it('cause no deadlocks in PostgreSQL', async () => {
    const { url } = world.api.database
    // A connection reports its deadlocks when it closes.
    await world.api.services.db.destroy()
    const db = openDatabase(url, { max: 1 })
    try {
      const others = sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
        where datname = current_database() and application_name = '' and pid <> pg_backend_pid()
        and state = 'idle in transaction'`
      await until(async () => (await others.execute(db)).rows[0]?.n === 0)
      const { rows } = await sql<{
        deadlocks: number
      }>`select deadlocks from pg_stat_database where datname = current_database()`.execute(db)
      assert.equal(rows[0]?.deadlocks, 0)
    } finally {
      await db.destroy()
    }
  })
})
