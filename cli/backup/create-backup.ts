import { openSnapshot } from '../../db/backup/snapshot.ts'
import { ApiError } from '../../domain/errors.ts'
import type { ObjectInfo, ObjectStore } from '../../platform/object-store/store.ts'
import { VERSION } from '../../platform/version.ts'
import { size } from '../amounts.ts'
import { ArchiveWriter } from './archive-writer.ts'
import type { Deployment } from './deployment.ts'
import {
  type BackupHeader,
  ENTRY,
  FORMAT,
  FORMAT_VERSION,
  levelOf,
  type ObjectEntry,
  type TableSummary,
} from './format.ts'
import { progressLine } from './progress.ts'

export interface BackupOptions {
  /** Includes the bytes of all objects. */
  objects?: boolean
}

/** The result of a backup. */
export interface BackupReport {
  file: string
  from: string
  hearth_version: string
  migration: string
  bytes: number
  tables: number
  rows: number
  table_bytes: number
  objects: number
  object_bytes: number
  has_objects: boolean
  /** Keys of objects whose bytes are not those that were stored. */
  damaged_objects: readonly string[]
  encryption_key_ids: readonly string[]
  /** How long the database's snapshot was open. */
  snapshot_s: number
  total_s: number
}

/** Writes one consistent snapshot of a deployment to a file. Only the complete file appears under its name. */
export async function createBackup(
  file: string,
  deployment: Deployment,
  { objects: hasObjects = false }: BackupOptions,
): Promise<BackupReport> {
  const startedAt = performance.now()
  const store = await deployment.openObjects()
  await using database = await deployment.openDatabase()
  await using archive = await ArchiveWriter.create(file)
  const stopListening = discardOnSignal(archive)
  const progress = progressLine()
  try {
    const { header, tables, snapshotMs } = await addTables(archive, database.url, { hasObjects, progress })
    const stored = await (hasObjects ? addObjects : addListing)(archive, store, progress)
    await archive.finish({ tables, objects: { count: stored.count, bytes: stored.bytes } })
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
    return {
      file,
      from: deployment.from,
      hearth_version: VERSION,
      migration: levelOf(header),
      bytes: archive.bytes,
      tables: tables.length,
      rows: sum(tables.map(({ rows }) => rows)),
      table_bytes: sum(tables.map(({ bytes }) => bytes)),
      objects: stored.count,
      object_bytes: stored.bytes,
      has_objects: hasObjects,
      damaged_objects: stored.damaged,
      encryption_key_ids: header.keys.map(({ id }) => id),
      snapshot_s: snapshotMs / 1000,
      total_s: (performance.now() - startedAt) / 1000,
    }
  } finally {
    progress.end()
    stopListening()
  }
}

type Progress = ReturnType<typeof progressLine>

/** The rows come first, so that the snapshot does not stay open while objects are copied. */
async function addTables(
  archive: ArchiveWriter,
  url: string,
  { hasObjects, progress }: { hasObjects: boolean; progress: Progress },
): Promise<{ header: BackupHeader; tables: TableSummary[]; snapshotMs: number }> {
  const openedAt = performance.now()
  await using snapshot = await openSnapshot(url)
  const header: BackupHeader = {
    format: FORMAT,
    format_version: FORMAT_VERSION,
    hearth_version: VERSION,
    created_at: new Date().toISOString(),
    migrations: snapshot.migrations,
    tables: snapshot.tables,
    partitions: snapshot.partitions,
    keys: snapshot.keys,
    has_objects: hasObjects,
  }
  await archive.add(ENTRY.header, header)
  const tables: TableSummary[] = []
  for (const table of snapshot.tables) {
    const summary = await archive.addPieces(`${ENTRY.table}${table.name}`, (write) =>
      snapshot.copy(table, (text) => {
        progress.report(
          () =>
            `table ${tables.length + 1} of ${snapshot.tables.length} (${table.name}), ${size(archive.bytes)} written`,
        )
        return write(text)
      }),
    )
    tables.push({ name: table.name, ...summary })
  }
  await archive.add(ENTRY.sequences, await snapshot.sequences())
  return { header, tables, snapshotMs: performance.now() - openedAt }
}

interface StoredObjects {
  count: number
  bytes: number
  damaged: string[]
}

async function addListing(
  archive: ArchiveWriter,
  store: ObjectStore,
  progress: Progress,
): Promise<StoredObjects> {
  const stored: StoredObjects = { count: 0, bytes: 0, damaged: [] }
  await archive.addPieces(ENTRY.listing.slice(0, -1), async (write) => {
    for await (const info of store.list()) {
      const object = await describe(store, info)
      if (!object) continue
      stored.count += 1
      stored.bytes += object.size_bytes
      progress.report(() => `${stored.count} objects listed`)
      await write(Buffer.from(`${JSON.stringify(object)}\n`))
    }
    return stored.count
  })
  return stored
}

async function addObjects(
  archive: ArchiveWriter,
  store: ObjectStore,
  progress: Progress,
): Promise<StoredObjects> {
  const stored: StoredObjects = { count: 0, bytes: 0, damaged: [] }
  for await (const info of store.list()) {
    const object = await describe(store, info)
    const opened = object && (await store.get(object.key).catch(ignoreDeleted))
    if (!object || !opened) continue
    const name = `${ENTRY.object}${String(stored.count + 1).padStart(9, '0')}`
    const described = { ...object, size_bytes: opened.info.sizeBytes }
    await archive.add(`${name}.json`, described)
    const { sha256 } = await archive.addStream(`${name}.data`, described.size_bytes, opened.body)
    if (object.sha256 !== undefined && object.sha256 !== sha256) stored.damaged.push(object.key)
    stored.count += 1
    stored.bytes += described.size_bytes
    progress.report(() => `${stored.count} objects, ${size(archive.bytes)} written`)
  }
  return stored
}

/** S3 lists objects without their digests. Returns undefined for an object that was deleted since. */
async function describe(store: ObjectStore, listed: ObjectInfo): Promise<ObjectEntry | undefined> {
  const info = listed.sha256 === undefined ? await store.head(listed.key) : listed
  if (!info) return undefined
  const { key, sizeBytes, contentType, sha256 } = info
  return { key, size_bytes: sizeBytes, content_type: contentType, ...(sha256 !== undefined && { sha256 }) }
}

function ignoreDeleted(err: unknown): undefined {
  if (!(err instanceof ApiError && err.code === 'not_found')) throw err
}

/** Ctrl-C would otherwise leave a partial file. */
function discardOnSignal(archive: ArchiveWriter): () => void {
  const leave = () => {
    archive.discard()
    process.exit(130)
  }
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.once(signal, leave)
  return () => signals.forEach((signal) => process.off(signal, leave))
}
