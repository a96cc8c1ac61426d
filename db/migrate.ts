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
}

/**
 * Migrates the schema to the newest version that this process knows and returns the applied migrations. Several
 * processes may call it at once, because kysely takes an advisory lock. Newer migrations that other processes have
 * applied are kept. Throws a `SchemaTooNewError` when one of them requires a newer process than this one.
 */
export async function migrate(db: Kysely<Database>, { folder }: MigrateOptions = {}): Promise<string[]> {
  const own = await readMigrations(folder === undefined ? FOLDER : pathToFileURL(`${folder}/`))
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

const numberOf = (name: string): number => Number.parseInt(name, 10)

async function readMigrations(folder: URL): Promise<Record<string, Migration>> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted()
  const entries = names.map(async (name): Promise<[string, Migration]> => {
    const text = await readFile(new URL(name, folder), 'utf8')
    return [name.replace(/\.sql$/, ''), { up: async (db) => void (await sql.raw(text).execute(db)) }]
  })
  return Object.fromEntries(await Promise.all(entries))
}
