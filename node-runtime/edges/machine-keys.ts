import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identify, isAlive, type ProcessIdentity } from '../../platform/processes/process-identity.ts'

const KEY = /^[\da-f]{64}$/

/**
 * The folder of the keys under which this user's nodes on this machine serve payloads, one file per key. Only nodes on
 * this machine can write to it, so a key in it proves that its loopback address belongs to this machine.
 */
const folder = (): string => join(tmpdir(), `hearth-edge-keys-${process.getuid?.() ?? 0}`)

/** Announces a key of this process to the other nodes on this machine, and removes the keys of dead processes. */
export async function announceKey(spkiSha256: string): Promise<void> {
  await mkdir(folder(), { recursive: true, mode: 0o700 })
  if (!(await isOwn())) return
  await machineKeys()
  await writeFile(join(folder(), spkiSha256), JSON.stringify(identify(process.pid)), { mode: 0o600 })
}

export const withdrawKey = (spkiSha256: string): Promise<void> =>
  rm(join(folder(), spkiSha256), { force: true })

/** Returns the keys of nodes that run on this machine. */
export async function machineKeys(): Promise<string[]> {
  if (!(await isOwn())) return []
  const names = (await readdir(folder())).filter((name) => KEY.test(name))
  const alive = await Promise.all(
    names.map(async (name) => {
      if (await isOfLiveProcess(join(folder(), name))) return name
      await rm(join(folder(), name), { force: true })
      return undefined
    }),
  )
  return alive.filter((name) => name !== undefined)
}

/** Checks the folder's owner: another user could create it first and announce other machines' keys in it. */
async function isOwn(): Promise<boolean> {
  const found = await lstat(folder()).catch(() => undefined)
  return (
    found !== undefined &&
    found.isDirectory() &&
    found.uid === process.getuid?.() &&
    (found.mode & 0o077) === 0
  )
}

async function isOfLiveProcess(path: string): Promise<boolean> {
  try {
    return isAlive(JSON.parse(await readFile(path, 'utf8')) as ProcessIdentity)
  } catch {
    return false
  }
}
