import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { until } from '../../support/assertions/until.ts'
import { buildAccount, KEY } from '../../support/builders/backup/deployments.ts'
import { HearthRunner } from '../../support/builders/run-hearth.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { startTcpProxy, type TcpProxy } from '../../support/servers/tcp-proxy.ts'

const ACCOUNTS = 8_000
const STALL_LOCK = 20_261_130

describe('an interrupted', () => {
  let source: TestDatabase
  let proxy: TcpProxy
  let hearth: HearthRunner
  let file: string
  before(async () => {
    source = await startDatabase()
    await buildAccount(source)
    await sql`insert into account (id, name)
      select gen_random_uuid(), string_agg(md5(random()::text), '')
      from generate_series(1, ${ACCOUNTS}) n, generate_series(1, 40) group by n`.execute(source.db)
    proxy = await startTcpProxy(Number(new URL(source.url.replace(/@[^:]*/, '@127.0.0.1')).port))
  })
  after(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await source?.[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    hearth = new HearthRunner({ HEARTH_ENCRYPTION_KEYS: KEY })
    file = join(hearth.folder, 'backup.tar')
    mkdirSync(join(hearth.folder, 'objects'))
  })
  afterEach(() => hearth[Symbol.dispose]())

  const env = ({ url }: TestDatabase) => ({
    DATABASE_URL: url,
    HEARTH_OBJECT_DIR: join(hearth.folder, 'objects'),
  })
  /** The source over a connection that a test can disturb. */
  const disturbed = () => env({ ...source, url: source.url.replace(/@[^/]*/, `@127.0.0.1:${proxy.port}`) })
  const files = () => readdirSync(hearth.folder).filter((name) => name.startsWith('backup'))
  const backsUp = async () => {
    const { code, err } = await hearth.run(['backup', file], { env: env(source) })
    assert.equal(code, 0, err)
    assert.deepEqual(files(), ['backup.tar'])
  }
  /** Starts a slow backup; resolves when a part of the rows is in the file. */
  const startSlowly = async (): Promise<ChildProcess> => {
    proxy.paceMs = 30
    const child = hearth.start(['backup', file], { env: disturbed() })
    await until(() => files().some((name) => statSync(join(hearth.folder, name)).size > 1_000_000))
    return child
  }

  it('backup that is killed leaves no file under its name, and the next one removes what is left', async () => {
    const child = await startSlowly()

    child.kill('SIGKILL')
    await once(child, 'close')

    assert.deepEqual(files(), [`backup.tar.${child.pid}.part`])
    await backsUp()
  })

  it('backup that is stopped with Ctrl-C removes its file and keeps an earlier backup', async () => {
    writeFileSync(file, 'earlier')
    const child = await startSlowly()

    child.kill('SIGINT')
    const [code] = (await once(child, 'close')) as [number]

    assert.equal(code, 130)
    assert.deepEqual(files(), ['backup.tar'])
    assert.equal(statSync(file).size, 'earlier'.length)
  })

  it('backup whose connection breaks reports that in one line and leaves no file', async () => {
    proxy.paceMs = 0
    proxy.cutAt = proxy.bytes + 2_000_000
    const { code, err } = await hearth.run(['backup', file], { env: disturbed() })

    assert.equal(code, 1, err)
    assert.match(err, /^hearth: The backup failed: .*\n$/)
    assert.deepEqual(files(), [])
  })

  it('restore that is killed leaves no rows and can be repeated', async () => {
    await backsUp()
    await using target = await startDatabase()
    const countRows = async () => {
      const { rows } = await sql<{ count: number }>`
        select (select count(*) from account) + (select count(*) from idempotency) as count`.execute(
        target.db,
      )
      return Number(rows[0]?.count)
    }
    // The check stops the restore after it has loaded the accounts.
    await sql`alter table idempotency add constraint stalls
      check (pg_advisory_xact_lock_shared(${sql.lit(STALL_LOCK)})::text is not null)`.execute(target.db)
    await target.db.connection().execute(async (connection) => {
      await sql`select pg_advisory_lock(${STALL_LOCK})`.execute(connection)
      const child = hearth.start(['restore', file], { env: env(target) })
      await until(async () => {
        const { rows } = await sql`select from pg_stat_activity
          where application_name = 'hearth restore' and wait_event = 'advisory'`.execute(connection)
        return rows.length > 0
      })
      child.kill('SIGKILL')
      await once(child, 'close')
      await sql`select pg_advisory_unlock(${STALL_LOCK})`.execute(connection)
    })

    assert.equal(await countRows(), 0)
    const { code, err } = await hearth.run(['restore', file], { env: env(target) })
    assert.equal(code, 0, err)
    assert.equal(await countRows(), ACCOUNTS + 2)
  })
})
