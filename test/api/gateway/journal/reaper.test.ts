import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { reapOrphans } from '../../../../api/gateway/journal/reaper.ts'
import * as gatewayRepository from '../../../../db/repositories/platform/gateways.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildHeldTask } from '../../../support/builders/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

/** How long the reaper waits for gateways to renew their leases, and the tolerance of this test. */
const RENEWAL_S = 10
const SLACK_S = 1

describe('the reaper', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  it('keeps the rows of a gateway whose lease expired during a database outage', async () => {
    const { db } = database
    const [accountId, cutOff] = [newId(), newId()]
    await db.insertInto('account').values({ id: accountId, name: 'a' }).execute()
    await gatewayRepository.takeGatewayLease(db, { id: cutOff, baseUrl: 'http://cut-off', leaseS: 60 })
    const id = await buildHeldTask(db, accountId, { status: 'running', gateway_id: cutOff })
    const statusAfter = async (own: string) => {
      await reapOrphans(db, new Date(), own)
      return (await db.selectFrom('task').select('status').where('id', '=', id).executeTakeFirst())?.status
    }
    // The state after a database outage.
    const lease_expires_at = sql<Date>`pg_postmaster_start_time() - interval '1 second'`
    await db.updateTable('gateway').set({ lease_expires_at }).where('id', '=', cutOff).execute()

    assert.equal(await statusAfter(cutOff), 'running', 'a gateway must not reap its own rows')

    const { rows } = await sql<{ up_s: number }>`
      select extract(epoch from now() - pg_postmaster_start_time())::float8 as up_s`.execute(db)
    const upS = rows[0]!.up_s
    // By then every live gateway has renewed its lease; shortly before that, the outcome isn't deterministic.
    if (upS < RENEWAL_S - SLACK_S) assert.equal(await statusAfter(newId()), 'running')
    else if (upS > RENEWAL_S) assert.equal(await statusAfter(newId()), 'failed')
  })
})
