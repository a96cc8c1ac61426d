import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { CachedRead } from '../../api/gateway/caches/cached-read.ts'
import { GroupWriter } from '../../api/gateway/journal/group-writer.ts'
import { ofAccount, outsideAccounts } from '../../db/account-share.ts'
import { openDatabase } from '../../db/database.ts'
import { BackgroundLoop } from '../../platform/async/background-loop.ts'
import { createLogger } from '../../platform/log.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

const SHARE = 2
/** How long each slow query holds a connection from the account's share. */
const SLOW_S = 0.5
const SOON_MS = 400
const log = createLogger('test', 'silent')

describe("an account's share of connections", () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  /**
   * Runs `begin` in a request of an account, makes the account use up its share, and expects `done` to resolve at once.
   */
  async function assertRunsAtOnce(begin: (query: () => Promise<unknown>) => () => Promise<unknown>) {
    await using db = openDatabase(database.url, { max: SHARE + 2, accountShare: SHARE })
    const slow: Promise<unknown>[] = []
    const query = () => sql`select 1`.execute(db)
    const start = begin(query)
    // Each is a separate request: a request that holds a connection does not wait for its next one.
    for (let i = 0; i < 2 * SHARE; i++)
      slow.push(ofAccount('a', () => sql`select pg_sleep(${SLOW_S})`.execute(db)))
    await sleep(50)
    const began = performance.now()
    await ofAccount('a', start)
    const tookMs = performance.now() - began
    await Promise.all(slow)
    assert.ok(tookMs < SOON_MS, `it waited ${Math.round(tookMs)} ms for the account's connections`)
  }

  it("does not delay a background loop that one of the account's requests wakes", async () => {
    await assertRunsAtOnce((query) => {
      const loop = new BackgroundLoop(query, { everyMs: 3_600_000, onError: assert.ifError })
      return async () => {
        await loop.run()
        await loop[Symbol.asyncDispose]()
      }
    })
  })

  it("does not delay later runs of a loop whose timer was set by one of the account's requests", async () => {
    await assertRunsAtOnce((query) => {
      const { promise: ran, resolve } = Promise.withResolvers<void>()
      let runs = 0
      const work = async () => {
        if (runs++ > 0) await query().then(() => resolve())
      }
      const loop = new BackgroundLoop(work, { everyMs: 10, onError: assert.ifError })
      return async () => {
        void loop.run()
        await ran
        await loop[Symbol.asyncDispose]()
      }
    })
  })

  it('does not delay the writer that all accounts share', async () => {
    await assertRunsAtOnce((query) => {
      const writer = new GroupWriter<string>({
        log,
        sizeOf: () => 1,
        write: async () => void (await query()),
      })
      return () => writer.add('row')
    })
  })

  it('does not delay a cached read that all accounts share', async () => {
    await assertRunsAtOnce((query) => {
      const answer = new CachedRead(query, 1_000)
      return () => answer.get()
    })
  })

  it('does not delay shared work that runs outside any account, but delays the account itself', async () => {
    await assertRunsAtOnce((query) => () => outsideAccounts(query))
    await assert.rejects(
      assertRunsAtOnce((query) => query),
      /waited/,
    )
  })
})
