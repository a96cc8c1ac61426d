import assert from 'node:assert/strict'
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { migrate, SchemaTooNewError } from '../../db/migrate.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

const MIGRATIONS = fileURLToPath(new URL('../../db/migrations', import.meta.url))
/** The first migration that had to be compatible with processes running the previous version. */
const FIRST_EXPANDING = 22

describe('migrate', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await startDatabase()
  })
  afterEach(() => database[Symbol.asyncDispose]())

  /** Writes the migrations of another version into a folder. */
  async function version(change: (folder: string) => Promise<void>) {
    const folder = temporaryFolder()
    await cp(MIGRATIONS, folder.path, { recursive: true })
    await change(folder.path)
    return folder
  }

  it('leaves a database that is already migrated unchanged', async () => {
    assert.deepEqual(await migrate(database.db), [])
  })

  it('may run in several processes concurrently', async () => {
    const applied = await Promise.all([migrate(database.db), migrate(database.db), migrate(database.db)])

    assert.deepEqual(applied.flat(), [])
  })

  it('lets a process start next to newer ones whose migrations are purely additive', async () => {
    using newer = await version((folder) =>
      writeFile(join(folder, '9001-more.sql'), 'create table more (id integer primary key);'),
    )
    assert.deepEqual(await migrate(database.db, { folder: newer.path }), ['9001-more'])

    assert.deepEqual(await migrate(database.db), [])
    assert.deepEqual(await migrate(database.db, { folder: newer.path }), [])
  })

  it('stops a process older than the oldest compatible one, with instructions', async () => {
    using newer = await version((folder) =>
      writeFile(
        join(folder, '9002-contract.sql'),
        `alter table node_token drop column if exists never_there;
         update schema_compatibility set oldest_migration = 9002, oldest_version = '7.8.9';`,
      ),
    )
    await migrate(database.db, { folder: newer.path })

    await assert.rejects(migrate(database.db), (err) => {
      assert.ok(err instanceof SchemaTooNewError)
      assert.match(err.message, /needs Hearth 7\.8\.9 or newer .*start version 7\.8\.9, or restore a backup/)
      return true
    })
    assert.deepEqual(await migrate(database.db, { folder: newer.path }), [])
  })

  it('applies a missing migration that precedes the newest applied one', async () => {
    using newest = await version(async (folder) => {
      await writeFile(join(folder, '9001-first.sql'), 'create table first (id integer);')
      await writeFile(join(folder, '9003-third.sql'), 'create table third (id integer);')
    })
    using other = await version((folder) =>
      writeFile(join(folder, '9002-second.sql'), 'create table second (id integer);'),
    )
    await migrate(database.db, { folder: newest.path })

    assert.deepEqual(await migrate(database.db, { folder: other.path }), ['9002-second'])
  })

  it("reports a migration's error without applying any part of the migration", async () => {
    using broken = await version((folder) =>
      writeFile(join(folder, '9004-broken.sql'), 'create table whole (id integer); create table;'),
    )

    await assert.rejects(migrate(database.db, { folder: broken.path }), /syntax error/)
    const { rows } = await sql`select to_regclass('whole') as found`.execute(database.db)
    assert.deepEqual(rows, [{ found: null }])
    await rm(join(broken.path, '9004-broken.sql'))
    assert.deepEqual(await migrate(database.db, { folder: broken.path }), [])
  })

  it('has only migrations that work with the previous version or name the oldest version that they work with', async () => {
    const names = (await readdir(MIGRATIONS)).filter((name) => Number.parseInt(name, 10) >= FIRST_EXPANDING)
    const texts = await Promise.all(names.map((name) => readFile(join(MIGRATIONS, name), 'utf8')))

    const faults = names.flatMap((name, i) =>
      contractionsOf(texts[i] ?? '').map((fault) => `${name}: ${fault}`),
    )
    assert.deepEqual(faults, [])
  })

  it('detects statements that would break the previous version', () => {
    const breaking = [
      'drop table task;',
      'alter table task drop column error;',
      'ALTER TABLE task\n  RENAME COLUMN error TO fault;',
      'alter table task alter column error set not null;',
      'alter table task alter column error type integer using 0;',
      'alter table task add column kind text not null;',
      'truncate task;',
      'alter table task add column a text, add column b text not null check (b <> $$default$$);',
    ]
    for (const text of breaking) assert.equal(contractionsOf(text).length, 1, text)
    const kept = [
      'create table t (id uuid not null, kind text not null);',
      "alter table task add column kind text not null default 'x';",
      'alter table task add column kind text; -- drop table',
      'create function f() returns trigger as $$ begin delete from t; end $$ language plpgsql;',
      'drop trigger a on b; create trigger a after insert on b execute function f();',
      "alter table a drop column b; update schema_compatibility set oldest_migration = 1, oldest_version = '1';",
    ]
    for (const text of kept) assert.deepEqual(contractionsOf(text), [], text)
  })
})

const DESTRUCTIVE =
  /\bdrop\s+(table|column|type|view|schema|sequence|domain)\b|\brename\b|\btruncate\b|\bset\s+not\s+null\b|\balter\s+column\s+\w+\s+(set\s+data\s+)?type\b/i
const ADDED_COLUMN = /\badd\s+column\s+[^,;]*/gi

/**
 * Returns the statements that would break processes running the previous version, or none if the migration declares the
 * incompatibility.
 */
function contractionsOf(text: string): string[] {
  const plain = text.replaceAll(/--[^\n]*/g, '').replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
  if (/\bupdate\s+schema_compatibility\b/i.test(plain)) return []
  return plain
    .split(';')
    .map((statement) => statement.trim())
    .filter(
      (statement) =>
        DESTRUCTIVE.test(statement) ||
        (statement.match(ADDED_COLUMN) ?? []).some(
          (column) => /\bnot\s+null\b/i.test(column) && !/\bdefault\b|\bgenerated\b/i.test(column),
        ),
    )
}
