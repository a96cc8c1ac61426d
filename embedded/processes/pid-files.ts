import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identify, isAlive, type ProcessIdentity } from '../../platform/processes/process-identity.ts'
import { signalGroup } from '../../platform/processes/signals.ts'

/** Records a child, so that the next start can end it if this supervisor dies without stopping it. */
export function writePidFile(dir: string, name: string, pid: number): void {
  const identity = identify(pid)
  if (!identity) return
  mkdirSync(dir, { recursive: true })
  const file = join(dir, `${name}.pid`)
  writeFileSync(`${file}.new`, JSON.stringify(identity))
  renameSync(`${file}.new`, file)
}

export function removePidFile(dir: string, name: string): void {
  rmSync(join(dir, `${name}.pid`), { force: true })
}

/** Ends processes that an earlier supervisor left running; returns their names. */
export async function reapLeftovers(dir: string): Promise<string[]> {
  const found: string[] = []
  for (const file of listPidFiles(dir)) {
    const identity = readIdentity(join(dir, file))
    if (identity && isAlive(identity)) {
      found.push(file.replace(/\.pid$/, ''))
      await end(identity)
    }
    rmSync(join(dir, file), { force: true })
  }
  return found
}

/** SIGINT means a fast shutdown to PostgreSQL, and a graceful one to all other processes here. */
async function end(identity: ProcessIdentity): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGINT', 4000],
    ['SIGKILL', 3000],
  ] as const) {
    if (!signalGroup(identity.pid, signal)) return
    const deadline = Date.now() + waitMs
    while (isAlive(identity) && Date.now() < deadline) await sleep(50)
    if (!isAlive(identity)) break
  }
  // The leader has exited; kill the rest of its group.
  signalGroup(identity.pid, 'SIGKILL')
}

function listPidFiles(dir: string): string[] {
  try {
    return readdirSync(dir).filter((file) => file.endsWith('.pid'))
  } catch {
    return []
  }
}

/** Returns the process that a pid file names; `undefined` when the file is absent or was truncated by a crash. */
export function readIdentity(file: string): ProcessIdentity | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (typeof value !== 'object' || value === null) return undefined
    const { pid, started } = value as Partial<ProcessIdentity>
    return typeof pid === 'number' && typeof started === 'string' ? { pid, started } : undefined
  } catch {
    return undefined
  }
}
