import type { Readable } from 'node:stream'
import type { KeyUse } from '../../db/backup/catalog.ts'
import { assertEmptyDatabase, DatabaseLoad } from '../../db/backup/load.ts'
import { openDatabase } from '../../db/database.ts'
import { appliedMigrations, knownMigrations, migrate } from '../../db/migrate.ts'
import { isLocalStore } from '../../platform/object-store/local.ts'
import type { ObjectStore } from '../../platform/object-store/store.ts'
import { keyIdsOf } from '../../platform/secret-box.ts'
import { VERSION } from '../../platform/version.ts'
import { size } from '../amounts.ts'
import { CliError, usageError } from '../cli-error.ts'
import { readArchive, readHeader } from './archive-reader.ts'
import type { Deployment } from './deployment.ts'
import { type BackupHeader, type BackupTrailer, levelOf, type ObjectEntry, type Sequences } from './format.ts'
import { progressLine } from './progress.ts'

export interface RestoreOptions {
  /** Restores the bytes of the objects; otherwise they are only looked up. */
  objects?: boolean
  /** False to continue although an encryption key is missing. */
  key?: boolean
}

/** The result of a restore. */
export interface RestoreReport {
  from: string
  created_at: string
  hearth_version: string
  migration: string
  tables: number
  rows: number
  objects: number
  restored_objects: number
  /** Keys of objects that the object store lacks, or has with other bytes. */
  missing_objects: readonly string[]
  /** Tables that no migration creates, so their rows were not restored. */
  skipped_tables: readonly string[]
  missing_key_ids: readonly string[]
  total_s: number
}

/** Restores a backup into a deployment without rows. Everything is checked before anything is written. */
export async function restoreBackup(
  file: string,
  deployment: Deployment,
  { objects: putsObjects = false, key: needsKeys = true }: RestoreOptions,
): Promise<RestoreReport> {
  const startedAt = performance.now()
  const header = await readHeader(file)
  const missingKeys = checkKeys(header, deployment, needsKeys)
  if (putsObjects && !header.has_objects) {
    throw usageError(
      `${file} has no objects, only their list: it was written without --objects. Copy the objects into the object store, then restore without --objects.`,
    )
  }
  await assertKnown(header)
  await using stack = new AsyncDisposableStack()
  const open = async () => stack.use(await deployment.openDatabase())
  const existing = deployment.hasDatabase ? await open() : undefined
  if (existing) await assertEmptyDatabase(existing.url)
  const trailer = await readArchive(file)
  const database = existing ?? (await open())
  const store = await deployment.openObjects()
  await prepareSchema(database.url, header)
  const { objects, skippedTables } = await load(file, { url: database.url, header, store, putsObjects })
  return {
    from: deployment.from,
    created_at: header.created_at,
    hearth_version: header.hearth_version,
    migration: levelOf(header),
    tables: trailer.tables.length - skippedTables.length,
    rows: rowsOf(trailer, skippedTables),
    objects: trailer.objects.count,
    restored_objects: objects.restored,
    missing_objects: objects.missing,
    skipped_tables: skippedTables,
    missing_key_ids: missingKeys.map(({ id }) => id),
    total_s: (performance.now() - startedAt) / 1000,
  }
}

/** Reads a backup and checks its digests, without a database. */
export async function checkBackup(file: string): Promise<{ header: BackupHeader; trailer: BackupTrailer }> {
  const header = await readHeader(file)
  return { header, trailer: await readArchive(file) }
}

const rowsOf = ({ tables }: BackupTrailer, skipped: readonly string[]): number =>
  tables.reduce((sum, { name, rows }) => (skipped.includes(name) ? sum : sum + rows), 0)

/** Returns the keys that the deployment lacks. Throws if there are any and the operator did not accept the loss. */
function checkKeys({ keys }: BackupHeader, { encryptionKeys }: Deployment, needsKeys: boolean): KeyUse[] {
  const ids = keyIdsOf(encryptionKeys)
  const missing = keys.filter(({ id }) => !ids.includes(id))
  if (missing.length === 0 || !needsKeys) return missing
  const losses = missing.map(({ id, uses }) => {
    const counts = Object.entries(uses).map(([column, count]) => `${count} in ${column}`)
    return `${id} (${counts.join(', ')})`
  })
  throw usageError(
    `HEARTH_ENCRYPTION_KEYS lacks ${missing.length === 1 ? 'a key' : 'keys'} that the backup needs: ${losses.join('; ')}. ` +
      'Add it, or copy secrets.json of the old data directory into the new one. ' +
      'With --without-key, the restore continues and these values can never be read again.',
  )
}

async function assertKnown({ migrations, hearth_version: version }: BackupHeader): Promise<void> {
  const known = await knownMigrations()
  const unknown = migrations.filter((name) => !Object.hasOwn(known, name))
  if (unknown.length === 0) return
  throw new CliError(
    `This backup is of Hearth ${version} at migration ${migrations.at(-1)}, which this version (${VERSION}) does not know. Restore it with Hearth ${version} or newer.`,
  )
}

/** Brings an empty database to the level of the backup, so that its rows fit. */
async function prepareSchema(url: string, { migrations }: BackupHeader): Promise<void> {
  await using db = openDatabase(url, { max: 2 })
  const newer = (await appliedMigrations(db)).filter((name) => !migrations.includes(name))
  if (newer.length > 0) {
    throw new CliError(
      `This database already has migration ${newer.at(-1)}, which is newer than the backup (${migrations.at(-1)}). Restore into a new database without tables.`,
    )
  }
  await migrate(db, { only: migrations })
}

interface LoadContext {
  url: string
  header: BackupHeader
  store: ObjectStore
  putsObjects: boolean
}

async function load(file: string, { url, header, store, putsObjects }: LoadContext) {
  const objects = { restored: 0, missing: [] as string[] }
  const progress = progressLine()
  await using rows = await DatabaseLoad.begin(url, header.partitions)
  const skippedTables = header.tables.filter((table) => !rows.has(table)).map(({ name }) => name)
  let sequences: Sequences = []
  let isSkipped = false
  let bytes = 0
  const lookUp = async (object: ObjectEntry) => {
    const found = await store.head(object.key)
    const isSame =
      found?.sizeBytes === object.size_bytes &&
      (object.sha256 === undefined || found.sha256 === undefined || found.sha256 === object.sha256)
    if (!isSame) objects.missing.push(object.key)
  }
  try {
    await readArchive(file, {
      startTable(name) {
        const table = header.tables.find((one) => one.name === name)
        isSkipped = table === undefined || skippedTables.includes(name)
        if (table && !isSkipped) rows.start(table)
      },
      async text(text) {
        bytes += text.length
        progress.report(() => `${size(bytes)} of rows restored`)
        if (!isSkipped) await rows.write(text)
      },
      endTable: async () => (isSkipped ? undefined : rows.end()),
      sequences: (read) => {
        sequences = read
      },
      listed: lookUp,
      async object(object, body) {
        if (!putsObjects) return lookUp(object)
        await putObject(store, object, body)
        objects.restored += 1
        progress.report(() => `${objects.restored} objects restored`)
      },
    })
    await rows.commit(sequences)
  } finally {
    progress.end()
  }
  return { objects, skippedTables }
}

/** S3 copies objects of at most this size in one request. */
const MAX_COPY_BYTES = 5 * 1024 ** 3

/** Stores an object so that the store knows its digest, which S3 records only when an object is copied. */
async function putObject(
  store: ObjectStore,
  { key, content_type: contentType, size_bytes: sizeBytes, sha256 }: ObjectEntry,
  body: Readable,
): Promise<void> {
  const options = { contentType, sizeBytes, isAdmitted: true }
  if (sha256 === undefined || isLocalStore(store) || sizeBytes > MAX_COPY_BYTES) {
    await store.put(key, body, options)
    return
  }
  const temporary = `incoming/restore-${sha256}`
  await store.put(temporary, body, options)
  await store.move(temporary, key)
}
