import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { usageError } from './cli-error.ts'

/** A platform that the user logged in to. */
export interface Profile {
  base_url: string
  api_key?: string
  operations_key?: string
}

/** The profiles of this user, and the one that commands use by default. */
export interface Profiles {
  current: string | null
  profiles: Record<string, Profile>
}

/** Returns the path of the profiles file. */
export const profilesFile = (): string =>
  join(process.env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'hearth', 'config.json')

/** Reads the profiles; returns none before the first login. */
export function readProfiles(): Profiles {
  const file = profilesFile()
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return { current: null, profiles: {} }
    throw usageError(`${file} cannot be read: ${(err as Error).message}`)
  }
  const found = parsed(text)
  if (found) return found
  throw usageError(
    `${file} is not a profiles file; move it away, and \`npx hearth login\` will create a new one`,
  )
}

function parsed(text: string): Profiles | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const { current = null, profiles } = (value ?? {}) as Partial<Profiles>
  const isRead =
    typeof profiles === 'object' &&
    profiles !== null &&
    Object.values(profiles).every((one) => typeof (one as Partial<Profile> | null)?.base_url === 'string')
  return isRead ? { current, profiles } : undefined
}

/** Replaces the file atomically. Only its owner may read it, because it contains keys. */
export function saveProfiles(profiles: Profiles): void {
  const file = profilesFile()
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const next = `${file}.${process.pid}.new`
  writeFileSync(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 })
  chmodSync(next, 0o600)
  renameSync(next, file)
}
