import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../platform/config.ts'
import { CliError, usageError } from './cli-error.ts'
import { type Profile, readProfiles } from './profiles.ts'

/** Options that every command accepts. */
export interface GlobalOptions {
  baseUrl?: string
  profile?: string
  apiKey?: string
  operationsKey?: string
  json?: boolean
}

/** The file that `npm start` writes to its data directory while it is up. */
interface Ready {
  base_url: string
  operations_key: string
  api_key: string
  account_id: string
}

/** A value, and what it was taken from, in words. */
export interface Found {
  text: string
  from: string
}

/** The platform that a command is for, and what it is reached with. */
export interface Platform {
  baseUrl: string
  baseUrlFrom: string
  profile: string | undefined
  apiKey: Found | undefined
  operationsKey: Found | undefined
  /** The account of the platform that runs on this machine. */
  readyAccount: string | undefined
  /** True when a flag, the environment or a profile has given the API key, rather than the platform running here. */
  isKeyGiven: boolean
}

const RUNNING_HERE = 'the platform running here'

const sameAddress = (text: string): string => text.replace(/\/+$/, '')

/** Options come before the environment, then a profile, then what runs on this machine. */
export function findPlatform(options: GlobalOptions, config: Config): Platform {
  const profile = chosenProfile(options.profile ?? config.HEARTH_PROFILE)
  const ready = readReady(join(config.HEARTH_DATA_DIR, 'ready.json'))
  const ofProfile = `profile ${profile?.name}`
  const address = first(
    [options.baseUrl, '--base-url'],
    [config.HEARTH_BASE_URL, 'HEARTH_BASE_URL'],
    [profile?.base_url, ofProfile],
    [ready?.base_url, RUNNING_HERE],
  )
  if (!address) {
    throw usageError(
      `No platform is running here (there is no ${join(config.HEARTH_DATA_DIR, 'ready.json')}). Start one with \`npm start\`, log in to one with \`npx hearth login\`, or name one with --base-url or HEARTH_BASE_URL.`,
    )
  }
  const baseUrl = sameAddress(address.text)
  // A key of one platform is never sent to another.
  const usedProfile = profile && sameAddress(profile.base_url) === baseUrl ? profile : undefined
  const usedReady = ready && sameAddress(ready.base_url) === baseUrl ? ready : undefined
  const credential = (
    given: string | undefined,
    { option, variable, of }: { option: string; variable: string; of: 'api_key' | 'operations_key' },
  ) =>
    first(
      [given, option],
      [of === 'api_key' ? config.HEARTH_API_KEY : config.HEARTH_OPERATIONS_KEY, variable],
      [usedProfile?.[of], ofProfile],
      [usedReady?.[of], RUNNING_HERE],
    )
  const apiKey = credential(options.apiKey, {
    option: '--api-key',
    variable: 'HEARTH_API_KEY',
    of: 'api_key',
  })
  return {
    baseUrl,
    baseUrlFrom: address.from,
    profile: usedProfile?.name,
    apiKey,
    isKeyGiven: apiKey !== undefined && apiKey.from !== RUNNING_HERE,
    operationsKey: credential(options.operationsKey, {
      option: '--operations-key',
      variable: 'HEARTH_OPERATIONS_KEY',
      of: 'operations_key',
    }),
    readyAccount: usedReady?.account_id,
  }
}

function first(...places: readonly [string | undefined, string][]): Found | undefined {
  for (const [text, from] of places) if (text) return { text, from }
  return undefined
}

/** Returns the named profile, else the one of the last login. */
function chosenProfile(named: string): (Profile & { name: string }) | undefined {
  const { current, profiles } = readProfiles()
  const name = named || current
  if (name === null) return undefined
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (profile) return { ...profile, name }
  if (!named) return undefined
  const known = Object.keys(profiles).join(', ') || 'none'
  throw usageError(
    `there is no profile ${name} (known: ${known}); \`npx hearth login --profile ${name}\` makes it`,
  )
}

/** Reads the file of the platform that runs on this machine; undefined where none does. */
export function readReady(file: string): Ready | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Ready
  } catch (err) {
    const { code = '', message } = err as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new CliError(`${file} cannot be read: ${message}`)
  }
}
