import { randomUUID } from 'node:crypto'
import { renameSync, rmSync, writeFileSync } from 'node:fs'

/** Creates a lock file that names its holder; returns false when the file already exists. */
export function createLockFile(file: string, holder: string): boolean {
  try {
    writeFileSync(file, holder, { flag: 'wx' })
    return true
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw err
  }
}

/**
 * Removes a lock file whose holder has exited. If several processes do so at once, a later one may move aside the first
 * one's new lock file; it then puts that file back. Throws when the file cannot be moved, so that a caller that retries
 * does not loop forever.
 */
export function removeAbandonedLock(file: string, isAbandoned: (file: string) => boolean): void {
  const aside = `${file}.${randomUUID()}`
  try {
    renameSync(file, aside)
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return
    throw err
  }
  if (isAbandoned(aside)) rmSync(aside, { force: true })
  else renameSync(aside, file)
}
