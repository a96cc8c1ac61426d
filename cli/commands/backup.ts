import type { Command } from 'commander'
import { size } from '../amounts.ts'
import { filled } from '../arguments.ts'
import type { BackupReport } from '../backup/create-backup.ts'
import { existingDeployment, findDeployment, withDataDir } from '../backup/deployment.ts'
import { inOneLine } from '../backup/failures.ts'
import { levelOf } from '../backup/format.ts'
import type { RestoreReport } from '../backup/restore-backup.ts'
import { print, printStatus } from '../print.ts'

const MAX_KEYS_SHOWN = 20

interface DeploymentFlags {
  dataDir?: string
}
interface JsonFlag {
  json?: boolean
}

/** Writes a backup of the database and the list, or the bytes, of the objects. */
export function backupCommand(backup: Command): void {
  withDataDir(backup)
    .argument('<file>', 'file to write, for example hearth-2026-11-30.tar', filled)
    .option('--objects', 'include the bytes of all objects, not only their list')
    .action(async (file: string, flags: DeploymentFlags & { objects?: boolean }, command: Command) => {
      const { json = false } = command.optsWithGlobals<JsonFlag>()
      const { createBackup } = await import('../backup/create-backup.ts')
      const report = await inOneLine('The backup', () => createBackup(file, existingDeployment(flags), flags))
      print({ json }, report, formatBackup(report))
      warnOfObjects('have other bytes than those that were stored', report.damaged_objects)
    })
}

/** Restores a backup into an empty deployment, or checks one. */
export function restoreCommand(restore: Command): void {
  withDataDir(restore)
    .argument('<file>', 'file that `hearth backup` wrote', filled)
    .option('--objects', 'restore the bytes of the objects too')
    .option('--without-key', 'continue although an encryption key is missing; what it encrypted is lost')
    .option('--check', 'only read the file and check its digests; needs no database')
    .action(async (file: string, flags: RestoreFlags, command: Command) => {
      const { json = false } = command.optsWithGlobals<JsonFlag>()
      const { checkBackup, restoreBackup } = await import('../backup/restore-backup.ts')
      if (flags.check) {
        const { header, trailer } = await inOneLine('The check', () => checkBackup(file))
        const { tables, objects } = trailer
        const rows = tables.reduce((sum, table) => sum + table.rows, 0)
        const words = `The backup of ${header.created_at} is intact: Hearth ${header.hearth_version}, migration ${levelOf(header)}, ${rows} rows in ${tables.length} tables, ${objects.count} objects (${size(objects.bytes)})${header.has_objects ? '' : ', listed only'}.`
        print({ json }, { ...header, ...trailer }, words)
        return
      }
      const report = await inOneLine('The restore', () =>
        restoreBackup(file, findDeployment(flags), {
          objects: flags.objects ?? false,
          key: flags.withoutKey !== true,
        }),
      )
      print({ json }, report, formatRestore(report))
      for (const name of report.skipped_tables)
        printStatus(`hearth: table ${name} was not restored, because no migration of Hearth creates it`)
      warnOfObjects('are missing in the object store, or differ', report.missing_objects)
    })
}

interface RestoreFlags extends DeploymentFlags {
  objects?: boolean
  withoutKey?: boolean
  check?: boolean
}

function formatBackup(report: BackupReport): string {
  const objects = `${report.objects} objects (${size(report.object_bytes)}${report.has_objects ? '' : ', listed only'})`
  return (
    `${report.file}: ${size(report.bytes)}, from ${report.from}\n` +
    `${report.rows} rows in ${report.tables} tables (${size(report.table_bytes)} of text), ${objects}, migration ${report.migration}\n` +
    `Encryption keys that a restore needs: ${report.encryption_key_ids.join(', ') || 'none'}\n` +
    `The snapshot was open for ${report.snapshot_s.toFixed(1)} s; the backup took ${report.total_s.toFixed(1)} s.`
  )
}

function formatRestore(report: RestoreReport): string {
  const objects =
    report.restored_objects > 0
      ? `${report.restored_objects} objects restored`
      : `${report.objects - report.missing_objects.length} of ${report.objects} objects are in the object store`
  return (
    `Restored the backup of ${report.created_at} into ${report.from}: ${report.rows} rows in ${report.tables} tables, ${objects}, ${report.total_s.toFixed(1)} s.\n` +
    `The database is at migration ${report.migration} of Hearth ${report.hearth_version}. Start the platform with an empty Temporal.`
  )
}

/** Names the first objects on standard error, and their number. */
function warnOfObjects(what: string, keys: readonly string[]): void {
  if (keys.length === 0) return
  printStatus(`hearth: ${keys.length} objects ${what}:`)
  for (const key of keys.slice(0, MAX_KEYS_SHOWN)) printStatus(`        ${key}`)
  if (keys.length > MAX_KEYS_SHOWN)
    printStatus(`        and ${keys.length - MAX_KEYS_SHOWN} more; --json lists all of them`)
}
