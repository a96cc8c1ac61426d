import { neededMaps } from '../../../db/repositories/cohorts/evidence.ts'
import * as memorySnapshotRepository from '../../../db/repositories/memory/snapshots.ts'
import * as modelImportRepository from '../../../db/repositories/models/imports.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import * as retentionRepository from '../../../db/repositories/platform/retention.ts'
import type { ExpiredFile } from '../../../db/repositories/platform/retention.ts'
import * as sealedTextRepository from '../../../db/repositories/platform/sealed.ts'
import * as usageRepository from '../../../db/repositories/platform/usage.ts'
import * as taskUploadRepository from '../../../db/repositories/tasks/uploads.ts'
import * as jobFileRepository from '../../../db/repositories/training/job-files.ts'
import { EVALUATIONS, EVIDENCE, importKey, INCOMING_PUTS, RELAYED } from '../../../domain/object-keys.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import { SecretBox } from '../../../platform/secret-box.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { removeUnnamed } from './unnamed-files.ts'

/** The number of files that one step removes; each costs a round trip to the object store. */
const FILE_BATCH = 200
/** How many imports (up to 1,000 files each) and how many runs (one folder each) one step examines. */
const IMPORT_BATCH = 2
const RUN_BATCH = 20

const DAY_MS = 24 * 60 * 60 * 1000

/** The number of secrets of each kind that one step re-encrypts. */
const REENCRYPT_BATCH = 500

/** The result of a step: its count, and whether more may be left. */
export interface Step {
  count: number
  more: boolean
}

export const createMaintenanceActivities = ({ db, objects, config, log, now }: ControlDeps) => ({
  /**
   * Folds usage deltas into the totals. Safe to repeat because a single statement removes a delta and adds it to the
   * totals.
   */
  async foldUsageCounts(): Promise<Step> {
    const { taken: count, absurd } = await usageRepository.foldUsage(db)
    if (absurd > 0) emit(log, 'usage.counts_cut', { rows: absurd })
    return { count, more: count === usageRepository.FOLD_BATCH }
  },

  /** Removes one batch of expired rows of every kind. Safe to repeat because the choice depends only on age. */
  async removeOutlivedRows(): Promise<Step> {
    // One after another: in parallel, each would open a connection, and this work isn't urgent.
    const counts: number[] = []
    for (const table of retentionRepository.AGED_TABLES)
      counts.push(await retentionRepository.removeAged(db, table))
    counts.push(
      await modelOrderRepository.dropOldOrders(db, retentionRepository.RETENTION_BATCH),
      await memorySnapshotRepository.removeOldSnapshots(db, { limit: retentionRepository.RETENTION_BATCH }),
    )
    return {
      count: counts.reduce((sum, each) => sum + each, 0),
      more: counts.includes(retentionRepository.RETENTION_BATCH),
    }
  },

  /**
   * Re-encrypts secrets with the first key of the key ring, so that operators can remove older keys. Safe to repeat
   * because it changes only secrets that are encrypted with another key.
   */
  async resealSecrets(): Promise<Step> {
    if (config.HEARTH_ENCRYPTION_KEYS.length === 0) return { count: 0, more: false }
    const box = new SecretBox(config.HEARTH_ENCRYPTION_KEYS)
    const reencrypt = (sealed: Buffer, context: string) => box.seal(box.open(sealed, context), context)
    const count = await sealedTextRepository.reencryptTexts(db, {
      prefix: box.currentPrefix,
      reencrypt,
      limit: REENCRYPT_BATCH,
    })
    return { count, more: count >= REENCRYPT_BATCH }
  },

  /**
   * Removes files that are no longer reachable, then their rows. Safe to repeat because a row stays until its file is
   * gone, and deleting an absent file succeeds.
   */
  async removeOutlivedFiles(): Promise<Step> {
    const uploads = await retentionRepository.expiredUploads(db, FILE_BATCH)
    await removeFiles(objects, uploads)
    await retentionRepository.removeUploads(
      db,
      uploads.map(({ id }) => id),
    )

    const imports = await modelImportRepository.expiredImports(db, IMPORT_BATCH)
    await removeFiles(
      objects,
      imports.flatMap(({ id, paths }) => paths.map((path) => ({ object_key: importKey(id, path) }))),
    )
    await modelImportRepository.removeModelImports(
      db,
      imports.map(({ id }) => id),
    )

    const runs = await jobFileRepository.unsweptRuns(db, RUN_BATCH)
    const left = await Promise.all(runs.map((run) => sweepRun({ db, objects }, run)))

    await sweepTasks({ db, objects })
    const open = (table: 'cohort' | 'structured_run') => (ids: string[]) =>
      retentionRepository.openAmong(db, table, ids)
    // Partial uploads from killed gateways, payloads and vectors that ended cohorts and runs left behind, and maps from
    // evidence that is no longer valid.
    const folders: Omit<AgedFolder, 'now'>[] = [
      { folder: INCOMING_PUTS },
      { folder: RELAYED, idAt: 2, openAmong: open('cohort') },
      { folder: EVALUATIONS, idAt: 1, openAmong: open('structured_run') },
      { folder: EVIDENCE, idAt: 1, openAmong: (ids) => neededMaps(db, ids) },
    ]
    let isLeft = false
    for (const folder of folders) isLeft = (await removeDayOld(objects, { ...folder, now: now() })) || isLeft

    const inputs = await retentionRepository.expiredInputs(db, FILE_BATCH)
    await removeFiles(objects, inputs)
    await retentionRepository.removeInputs(
      db,
      inputs.map(({ id }) => id),
    )
    const more =
      isLeft ||
      uploads.length === FILE_BATCH ||
      imports.length === IMPORT_BATCH ||
      runs.length === RUN_BATCH ||
      inputs.length === FILE_BATCH
    const count = [uploads, imports.flatMap(({ paths }) => paths), inputs, left.flat()].flat().length
    return { count, more }
  },
})

async function removeFiles(
  objects: ObjectStore,
  files: readonly Pick<ExpiredFile, 'object_key'>[],
): Promise<void> {
  await Promise.all(files.map(({ object_key }) => objects.delete(object_key)))
}

/** Removes files that were uploaded for ended tasks and that no result references. */
async function sweepTasks({ db, objects }: Pick<ControlDeps, 'db' | 'objects'>): Promise<void> {
  for (const task of await taskUploadRepository.unsweptTasks(db, FILE_BATCH)) {
    await removeUnnamed(objects, task)
    await taskUploadRepository.noteTaskSwept(db, task.id)
  }
}

interface AgedFolder {
  folder: string
  now: Date
  /**
   * The index of the key segment that contains a row's id, and a filter for the ids whose rows still need their files.
   */
  idAt?: number
  openAmong?: (ids: string[]) => Promise<ReadonlySet<string>>
}

/** A file older than a day, and the id of the row that may need it. */
interface OldFile {
  object_key: string
  owner: string
}

/**
 * Removes a batch of a folder's files that are older than a day and that no open row needs; returns whether more are
 * left. It stops listing once the batch is full, because each batch lists the folder from the start.
 */
async function removeDayOld(
  objects: ObjectStore,
  { folder, now, idAt = 0, openAmong = () => Promise.resolve(new Set()) }: AgedFolder,
): Promise<boolean> {
  const unneeded: OldFile[] = []
  let old: OldFile[] = []
  const examine = async () => {
    const open = await openAmong([...new Set(old.map(({ owner }) => owner))])
    unneeded.push(...old.filter(({ owner }) => !open.has(owner)))
    old = []
  }
  for await (const { key, lastModified } of objects.list(folder)) {
    if (lastModified.getTime() >= now.getTime() - DAY_MS) continue
    old.push({ object_key: key, owner: key.split('/')[idAt] ?? '' })
    if (old.length > FILE_BATCH) await examine()
    if (unneeded.length > FILE_BATCH) break
  }
  await examine()
  await removeFiles(objects, unneeded.slice(0, FILE_BATCH))
  return unneeded.length > FILE_BATCH
}

/** Removes files that an ended run's attempts uploaded and that the run does not need; returns their keys. */
async function sweepRun(
  { db, objects }: Pick<ControlDeps, 'db' | 'objects'>,
  run: Awaited<ReturnType<typeof jobFileRepository.unsweptRuns>>[number],
): Promise<string[]> {
  const kept = await jobFileRepository.listJobFileKeys(db, run.id)
  const left: string[] = []
  for await (const { key } of objects.list(jobFileRepository.jobFolder(run)))
    if (!kept.has(key)) left.push(key)
  await removeFiles(
    objects,
    left.map((object_key) => ({ object_key })),
  )
  await jobFileRepository.noteSwept(db, run.id)
  return left
}
