import { readdir, readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { Database } from './tables.ts'

const FOLDER = new URL('./migrations/', import.meta.url)

/** The database was migrated for a newer version than this one; a retry would fail again. */
export class SchemaTooNewError extends Error {
  override readonly name = 'SchemaTooNewError'
}

export interface MigrateOptions {
  /** A folder to use instead of the project's own migrations. */
  folder?: string
  /** Applies only these, to create the schema of an older version; all by default. */
  only?: readonly string[]
}

/**
 * Migrates the schema to the newest version that this process knows and returns the applied migrations. Several
 * processes may call it at once, because kysely takes an advisory lock. Newer migrations that other processes have
 * applied are kept. Throws a `SchemaTooNewError` when one of them requires a newer process than this one.
 */
export async function migrate(
  db: Kysely<Database>,
  { folder, only }: MigrateOptions = {},
): Promise<string[]> {
  const all = await readMigrations(folder)
  const own = only ? Object.fromEntries(Object.entries(all).filter(([name]) => only.includes(name))) : all
  // Kysely calls this while it holds its lock, so no migration is applied between the two reads.
  const getMigrations = async () => ({ ...(await appliedByOthers(db, own)), ...own })
  const migrator = new Migrator({ db, provider: { getMigrations }, allowUnorderedMigrations: true })
  const { error, results } = await migrator.migrateToLatest()
  if (error) throw error instanceof Error ? error : new Error('migration failed', { cause: error })
  await assertCompatible(db, Math.max(0, ...Object.keys(own).map(numberOf)))
  return (results ?? []).map((result) => result.migrationName)
}

/** Returns migrations in the database that this process does not know; they are only listed, never run. */
async function appliedByOthers(
  db: Kysely<Database>,
  own: Record<string, Migration>,
): Promise<Record<string, Migration>> {
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  const up = (): Promise<void> =>
    Promise.reject(new Error('this migration belongs to a newer version of Hearth'))
  return Object.fromEntries(rows.filter(({ name }) => !(name in own)).map(({ name }) => [name, { up }]))
}

async function assertCompatible(db: Kysely<Database>, newest: number): Promise<void> {
  const row = await db.selectFrom('schema_compatibility').selectAll().executeTakeFirst()
  if (!row || row.oldest_migration <= newest) return
  throw new SchemaTooNewError(
    `this database needs Hearth ${row.oldest_version} or newer (migration ${row.oldest_migration}), and this ` +
      `process knows migrations up to ${newest}: start version ${row.oldest_version}, or restore a backup that was made before`,
  )
}

/** Returns the names of the applied migrations, oldest first; none for a database without tables. */
export async function appliedMigrations(db: Kysely<Database>): Promise<string[]> {
  const { rows: found } = await sql<{ found: string | null }>`
    select to_regclass('kysely_migration') as found`.execute(db)
  if (!found[0]?.found) return []
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)
  return rows.map(({ name }) => name)
}

/** Returns the SQL of every migration that this process knows, by name. */
export async function knownMigrations(folder?: string): Promise<Record<string, string>> {
  const url = folder === undefined ? FOLDER : pathToFileURL(`${folder}/`)
  const names = (await readdir(url)).filter((name) => name.endsWith('.sql')).toSorted()
  const entries = names.map(async (name): Promise<[string, string]> => [
    name.replace(/\.sql$/, ''),
    await readFile(new URL(name, url), 'utf8'),
  ])
  return Object.fromEntries(await Promise.all(entries))
}

const numberOf = (name: string): number => Number.parseInt(name, 10)

async function readMigrations(folder?: string): Promise<Record<string, Migration>> {
  const texts = Object.entries(await knownMigrations(folder))
  return Object.fromEntries(
    texts.map(([name, text]) => [name, { up: async (db) => void (await sql.raw(text).execute(db)) }]),
  )
}
