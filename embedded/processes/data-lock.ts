import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createLockFile, removeAbandonedLock } from '../../platform/processes/lock-file.ts'
import { identify, isAlive } from '../../platform/processes/process-identity.ts'
import { UsageError } from '../options.ts'
import { readIdentity } from './pid-files.ts'

/** Makes this process the only supervisor of a data directory; throws if there is another one. */
export function lockDataDir(dataDir: string): { release(): void } {
  const file = join(dataDir, 'supervisor.lock')
  const holder = JSON.stringify(identify(process.pid))
  for (let attempt = 0; attempt < 5; attempt++) {
    if (createLockFile(file, holder)) return { release: () => rmSync(file, { force: true }) }
    const owner = readIdentity(file)
    if (owner && isAlive(owner)) {
      throw new UsageError(
        `Another Hearth (pid ${owner.pid}) is running on ${dataDir}. Stop it first, or set HEARTH_DATA_DIR.`,
      )
    }
    removeAbandonedLock(file, isAbandoned)
  }
  throw new UsageError(`Could not lock ${dataDir}: another start locked it at the same moment. Try again.`)
}

function isAbandoned(file: string): boolean {
  const owner = readIdentity(file)
  return !owner || !isAlive(owner)
}
