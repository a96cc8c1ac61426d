import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { identify, isAlive } from '../../platform/processes/process-identity.ts'
import { UsageError } from '../options.ts'
import { readIdentity } from './pid-files.ts'

/** Makes this process the only supervisor of a data directory; refuses with a sentence otherwise. */
export function lockDataDir(dataDir: string): { release(): void } {
  const file = join(dataDir, 'supervisor.lock')
  for (let attempt = 0; attempt < 5; attempt++) {
    if (create(file)) return { release: () => rmSync(file, { force: true }) }
    const owner = readIdentity(file)
    if (owner && isAlive(owner)) {
      throw new UsageError(
        `Another Hearth (pid ${owner.pid}) is running on ${dataDir}. Stop it first, or set HEARTH_DATA_DIR.`,
      )
    }
    setAside(file)
  }
  throw new UsageError(`Could not lock ${dataDir}: another start took it at the same moment. Try again.`)
}

function create(file: string): boolean {
  try {
    const handle = openSync(file, 'wx')
    writeSync(handle, JSON.stringify(identify(process.pid)))
    closeSync(handle)
    return true
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw err
  }
}

/** Takes a stale lock away; one that turns out to be a new owner's is put back. */
function setAside(file: string): void {
  const aside = `${file}.${process.pid}`
  try {
    renameSync(file, aside)
  } catch {
    return
  }
  const owner = readIdentity(aside)
  if (owner && isAlive(owner)) renameSync(aside, file)
  else rmSync(aside, { force: true })
}
