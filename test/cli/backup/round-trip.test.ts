import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { sql } from 'kysely'
import { openLocalObjectStore } from '../../../platform/object-store/local.ts'
import { digestsOf, dropConstraints, fillTables } from '../../support/builders/backup/fill-tables.ts'
import { HearthRunner } from '../../support/builders/run-hearth.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

const PARTITIONED = `
  create table measured (
    id bigint generated always as identity, at date not null, doc jsonb,
    doubled bigint generated always as (id * 2) stored
  ) partition by range (at);
  create table measured_rest partition of measured default`

describe('hearth backup and hearth restore', () => {
  let source: TestDatabase
  let target: TestDatabase
  let hearth: HearthRunner
  before(async () => {
    source = await startDatabase()
    target = await startDatabase()
    hearth = new HearthRunner()
    for (const { db } of [source, target]) {
      await dropConstraints(db)
      await sql.raw(PARTITIONED).execute(db)
    }
    await sql`create table measured_2026_02 partition of measured
      for values from ('2026-02-01') to ('2026-02-12')`.execute(source.db)
  })
  after(async () => {
    hearth?.[Symbol.dispose]()
    await source?.[Symbol.asyncDispose]()
    await target?.[Symbol.asyncDispose]()
  })

  const environment = ({ url }: TestDatabase, objects: string) => ({
    DATABASE_URL: url,
    HEARTH_OBJECT_DIR: join(hearth.folder, objects),
    HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 1).toString('base64'),
  })
  const openStore = (name: string) =>
    openLocalObjectStore({ directory: join(hearth.folder, name), baseUrl: () => '' })

  it('preserve the rows of every table, partitions, sequences and objects', async () => {
    const tables = await fillTables(source.db, 9)
    const [from, to] = [await openStore('objects'), await openStore('restored')]
    const bytes = Buffer.alloc(700_000, 'object')
    await from.put('datasets/a/b (1)/data.csv', bytes, { contentType: 'text/csv' })
    await from.put('imports/empty', Buffer.alloc(0), { contentType: 'text/plain' })
    const file = join(hearth.folder, 'whole.tar')

    const backup = await hearth.json(['backup', file, '--objects'], { env: environment(source, 'objects') })
    const checked = await hearth.run(['restore', file, '--check'])
    // The synthetic bytes are not really encrypted, so no key can decrypt them.
    const restore = await hearth.json(['restore', file, '--objects', '--without-key'], {
      env: environment(target, 'restored'),
    })

    const digests = await digestsOf(source.db, tables)
    assert.ok(Object.values(digests).every((digest) => !digest.startsWith('0 ')))
    assert.deepEqual(await digestsOf(target.db, tables), digests)
    assert.equal(backup.objects, 2)
    assert.equal(restore.rows, backup.rows)
    assert.deepEqual(restore.missing_objects, [])
    assert.match(checked.out, /^The backup of .* is intact: /, checked.err)
    const { info, body } = await to.get('datasets/a/b (1)/data.csv')
    assert.deepEqual(await buffer(body), bytes)
    assert.equal(info.contentType, 'text/csv')
    assert.equal((await to.head('imports/empty'))?.sizeBytes, 0)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    await sql`insert into measured (at) values ('2026-02-11')`.execute(target.db)
    const { rows } = await sql<{ tableoid: string; id: number }>`
      select tableoid::regclass::text, id from measured order by id desc limit 1`.execute(target.db)
    assert.deepEqual(rows, [{ tableoid: 'measured_2026_02', id: 10 }])
  })
})
