import assert from 'node:assert/strict'
import { join } from 'node:path'
import { sql } from 'kysely'
import { breakingMigration, checkUpgrade } from '../../../cli/backup/upgrade-check.ts'
import { knownMigrations, migrate } from '../../../db/migrate.ts'
import { newId } from '../../../domain/ids.ts'
import { VERSION } from '../../../platform/version.ts'
import { deploymentOf } from '../../support/builders/backup/deployments.ts'
import { HearthRunner } from '../../support/builders/run-hearth.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

describe('hearth upgrade --check', () => {
  let database: TestDatabase
  let hearth: HearthRunner
  before(async () => {
    hearth = new HearthRunner()
    database = await startDatabase({ isEmpty: true })
    const known = Object.keys(await knownMigrations())
    await migrate(database.db, { only: known.slice(0, -2) })
  })
  after(async () => {
    hearth?.[Symbol.dispose]()
    await database?.[Symbol.asyncDispose]()
  })

  const check = () => checkUpgrade(deploymentOf(database, join(hearth.folder, 'objects')))
  const wrongIn = async () =>
    (await check()).checks
      .filter(({ state }) => state === 'wrong')
      .map(({ about, message }) => `${about}: ${message}`)

  it('lists pending migrations and open work, and changes nothing', async () => {
    const pending = Object.keys(await knownMigrations()).slice(-2)

    const report = await hearth.json(['upgrade', '--check'], { env: { DATABASE_URL: database.url } })

    assert.deepEqual(report.pending_migrations, pending)
    assert.equal(report.rollback_possible, true)
    assert.equal(report.ready, true)
    assert.equal(report.open_work.cohorts, 0)
    assert.deepEqual((await check()).pending_migrations, pending)
  })

  it('fails for nodes that are more than one release older', async () => {
    const accountId = newId()
    await sql`insert into account (id, name) values (${accountId}, 'one')`.execute(database.db)
    for (const [name, version] of [
      ['old', '0.1.0'],
      ['new', VERSION],
    ])
      await sql`insert into node (id, account_id, name, public_key, status, hardware, inventory, runtime_version)
        values (${newId()}, ${accountId}, ${name}, ${Buffer.from(name ?? '')}, 'active', 'cpu', '{}', ${version})`.execute(
        database.db,
      )

    const { code, out, err } = await hearth.run(['upgrade', '--check'], {
      env: { DATABASE_URL: database.url },
    })

    assert.equal(code, 1)
    assert.match(out, /^WRONG {2} {2}Node old: its version 0\.1\.0 is more than one release older than /m)
    assert.match(err, /^hearth: this deployment is not ready for the upgrade\n$/)
    assert.equal((await wrongIn()).length, 1)
    await sql`update node set status = 'removed'`.execute(database.db)
  })

  it('fails while a backup runs, because migrations would wait for it', async () => {
    await database.db.connection().execute(async (connection) => {
      await sql`set application_name = 'hearth backup'`.execute(connection)

      assert.deepEqual(await wrongIn(), ['Backups: a backup is running, and migrations would wait for it'])

      await sql`reset application_name`.execute(connection)
    })
  })

  it('fails when the database needs a newer version, and names it', async () => {
    await using newer = await startDatabase()
    await sql`update schema_compatibility set oldest_migration = 9002, oldest_version = '7.8.9'`.execute(
      newer.db,
    )
    await sql`insert into kysely_migration (name, timestamp) values ('9002-later', '')`.execute(newer.db)

    const { ready, checks } = await checkUpgrade(deploymentOf(newer, join(hearth.folder, 'objects')))

    assert.equal(ready, false)
    assert.match(checks[0]?.message ?? '', /^the database needs Hearth 7\.8\.9 or newer/)
  })

  it('says that no rollback is possible after a migration that older versions cannot work with', () => {
    const texts = {
      '0001-first': 'create table a (id integer)',
      '0002-more': 'alter table a add column b text',
      '0003-less':
        "alter table a drop column b; update schema_compatibility set oldest_migration = 3, oldest_version = '1'",
      '0004-same': "update schema_compatibility set oldest_migration = 1, oldest_version = '1'",
    }

    assert.equal(
      breakingMigration(['0002-more', '0003-less', '0004-same'], texts, ['0001-first']),
      '0003-less',
    )
    assert.equal(breakingMigration(['0002-more', '0004-same'], texts, ['0001-first']), undefined)
  })

  it('requires --check, and a deployment', async () => {
    const [unchecked, nowhere] = await Promise.all([
      hearth.run(['upgrade']),
      hearth.run(['upgrade', '--check']),
    ])

    assert.equal(unchecked.code, 2)
    assert.match(unchecked.err, /pass --check/)
    assert.equal(nowhere.code, 2)
    assert.match(
      nowhere.err,
      /has no database\. Pass the folder of `npm start` with --data-dir, or set DATABASE_URL/,
    )
  })
})
