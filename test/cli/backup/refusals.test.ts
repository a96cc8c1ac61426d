import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { sql } from 'kysely'
import { readArchive } from '../../../cli/backup/archive-reader.ts'
import { createBackup } from '../../../cli/backup/create-backup.ts'
import type { ObjectEntry } from '../../../cli/backup/format.ts'
import { checkBackup, restoreBackup } from '../../../cli/backup/restore-backup.ts'
import { CliError } from '../../../cli/cli-error.ts'
import { knownMigrations, migrate } from '../../../db/migrate.ts'
import { openLocalObjectStore } from '../../../platform/object-store/local.ts'
import { openS3ObjectStore } from '../../../platform/object-store/s3.ts'
import { buildAccount, deploymentOf, KEY, OTHER_KEY } from '../../support/builders/backup/deployments.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { startS3 } from '../../support/servers/s3.ts'
import { skipBecause } from '../../support/skip.ts'

describe('a restore', () => {
  const folder = temporaryFolder()
  const file = join(folder.path, 'good.tar')
  let source: TestDatabase
  /** A database without tables. Restores that fail must leave it like that. */
  let empty: TestDatabase
  before(async () => {
    source = await startDatabase()
    empty = await startDatabase({ isEmpty: true })
    await buildAccount(source)
    const store = await openLocalObjectStore({ directory: join(folder.path, 'objects'), baseUrl: () => '' })
    for (const name of ['one', 'two'])
      await store.put(`imports/${name}`, Buffer.alloc(5000, name), { contentType: 'text/plain' })
    await createBackup(file, from(), {})
  })
  after(async () => {
    await source?.[Symbol.asyncDispose]()
    await empty?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const from = () => deploymentOf(source, join(folder.path, 'objects'))
  const to = (database: TestDatabase, keys = [KEY]) =>
    deploymentOf(database, join(folder.path, 'elsewhere'), keys)
  const altered = (change: (bytes: Buffer) => Buffer) => {
    const path = join(folder.path, 'altered.tar')
    writeFileSync(path, change(readFileSync(file)))
    return path
  }
  /** Replaces a text by another of the same length. */
  const replaced = (text: string, by: string) =>
    altered((bytes) => {
      assert.equal(text.length, by.length)
      const at = bytes.indexOf(text)
      assert.ok(at > 0, text)
      bytes.write(by, at)
      return bytes
    })
  const refuses = async (work: Promise<unknown>, message: RegExp) => {
    await assert.rejects(work, (err) => {
      assert.ok(err instanceof Error && (err instanceof CliError || err.name === 'BackupError'), String(err))
      assert.match(err.message, message)
      return true
    })
    const { rows } = await sql`select from pg_class where relnamespace = 'public'::regnamespace`.execute(
      empty.db,
    )
    assert.equal(rows.length, 0, 'the restore wrote something')
  }

  it('refuses files that are not backups', async () => {
    const text = join(folder.path, 'text')
    writeFileSync(text, 'no backup'.repeat(1000))

    await refuses(restoreBackup(text, to(empty), {}), /is not a backup that `hearth backup` wrote/)
    await refuses(
      restoreBackup(
        altered(() => Buffer.alloc(0)),
        to(empty),
        {},
      ),
      /is not a backup/,
    )
    await refuses(restoreBackup(join(folder.path, 'absent'), to(empty), {}), /cannot be read: ENOENT/)
  })

  it('refuses truncated files, wherever they end', async () => {
    const { length } = readFileSync(file)
    for (const end of [length >> 1, length - 2 * 512 - 1, length - 4 * 512, 40 * 512]) {
      const path = altered((bytes) => bytes.subarray(0, end))
      await refuses(restoreBackup(path, to(empty), {}), /is damaged|is not a backup/)
    }
  })

  it('refuses files in which a single bit differs', async () => {
    const bytes = readFileSync(file)
    // In the header, the rows, an entry's name, and the last entry.
    const parts = ['"hearth_version', 'tables/account/', 'listing/', '"rows":1'].map((text) =>
      bytes.indexOf(text),
    )
    for (const at of [...parts, bytes.indexOf('tables/idempotency') + 600]) {
      assert.ok(at > 0)
      const path = altered((whole) => {
        whole.writeUInt8(whole.readUInt8(at + 2) ^ 4, at + 2)
        return whole
      })
      await refuses(restoreBackup(path, to(empty), {}), /is damaged/)
    }
  })

  it('refuses backups of newer versions, and says which version can restore them', async () => {
    const { header } = await checkBackup(file)
    const newest = header.migrations.at(-1) ?? ''

    await refuses(
      restoreBackup(replaced(newest, newest.replace(/^\d/, '9')), to(empty), {}),
      /is of Hearth \d.* at migration 9.*, which this version .* does not know\. Restore it with Hearth/,
    )
    await refuses(
      restoreBackup(replaced('"format_version":1', '"format_version":7'), to(empty), {}),
      /written by Hearth .* in a newer format \(7\)/,
    )
  })

  it('names a missing encryption key and what it encrypted, before anything is written', async () => {
    await refuses(
      restoreBackup(file, to(empty, [OTHER_KEY]), {}),
      /^HEARTH_ENCRYPTION_KEYS lacks a key that the backup needs: [\da-f]{8} \(1 in idempotency\.reply\)\..*--without-key/,
    )
    await refuses(restoreBackup(file, to(empty, []), {}), /lacks a key/)
  })

  it('refuses databases that have rows, or a newer schema than the backup', async () => {
    await using newer = await startDatabase()
    await sql`insert into kysely_migration (name, timestamp) values ('9001-later', '')`.execute(newer.db)

    await refuses(
      restoreBackup(file, to(source), {}),
      /^This database is not empty: account, idempotency have rows/,
    )
    await refuses(
      restoreBackup(file, to(newer), {}),
      /already has migration 9001-later, which is newer than the backup/,
    )
  })

  it('refuses to restore objects from a backup that has only their list', async () => {
    await refuses(restoreBackup(file, to(empty), { objects: true }), /has no objects, only their list/)
  })

  it('lists the objects that the object store lacks, and continues without a key if requested', async () => {
    await using target = await startDatabase({ isEmpty: true })
    const store = await openLocalObjectStore({ directory: join(folder.path, 'elsewhere'), baseUrl: () => '' })
    await store.put('imports/one', Buffer.alloc(5000, 'one'), { contentType: 'text/plain' })

    const report = await restoreBackup(file, to(target, [OTHER_KEY]), { key: false })

    assert.deepEqual(report.missing_objects, ['imports/two'])
    assert.equal(report.missing_key_ids.length, 1)
    const { rows } = await sql`select name from account`.execute(target.db)
    assert.deepEqual(rows, [{ name: 'one' }])
    const { rows: keys } = await sql<{ count: number }>`
      select count(*) from pg_constraint where contype = 'f'`.execute(source.db)
    const { rows: restored } = await sql<{ count: number }>`
      select count(*) from pg_constraint where contype = 'f' and convalidated`.execute(target.db)
    assert.deepEqual(restored, keys)
    const { rows: disabled } = await sql`
      select tgname from pg_trigger where tgenabled <> 'O' and not tgisinternal`.execute(target.db)
    assert.deepEqual(disabled, [])
  })

  it('creates the schema of the older version that wrote the backup, so that this version can migrate it', async () => {
    await using older = await startDatabase({ isEmpty: true })
    await using target = await startDatabase({ isEmpty: true })
    const migrations = Object.keys(await knownMigrations())
    await migrate(older.db, { only: migrations.slice(0, -3) })
    await buildAccount(older)
    const path = join(folder.path, 'older.tar')
    await createBackup(path, deploymentOf(older, join(folder.path, 'objects')), {})

    const { migration } = await restoreBackup(path, to(target), {})

    assert.equal(migration, migrations.at(-4))
    assert.deepEqual(await migrate(target.db), migrations.slice(-3))
    const { rows } = await sql`select name from account`.execute(target.db)
    assert.deepEqual(rows, [{ name: 'one' }])
  })

  it('copies objects from a folder to S3, whose digests a later backup reads', async function () {
    const s3 = await startS3()
    if ('missing' in s3) return skipBecause(this, s3.missing)
    await using stack = new AsyncDisposableStack()
    stack.use(s3)
    const target = stack.use(await startDatabase({ isEmpty: true }))
    const store = stack.use(openS3ObjectStore(s3.options))
    const onS3 = { ...to(target), openObjects: async () => store }
    const [whole, listed] = [join(folder.path, 'whole.tar'), join(folder.path, 'listed.tar')]
    await createBackup(whole, from(), { objects: true })

    const report = await restoreBackup(whole, onS3, { objects: true })
    await createBackup(listed, onS3, {})

    assert.equal(report.restored_objects, 2)
    const { body } = await store.get('imports/one')
    assert.deepEqual(await buffer(body), Buffer.alloc(5000, 'one'))
    const objects: ObjectEntry[] = []
    await readArchive(listed, { listed: async (object) => void objects.push(object) })
    assert.deepEqual(
      objects.map(({ key, sha256 }) => [key, sha256]),
      ['one', 'two'].map((name) => [
        `imports/${name}`,
        createHash('sha256').update(Buffer.alloc(5000, name)).digest('hex'),
      ]),
    )
  })
})
