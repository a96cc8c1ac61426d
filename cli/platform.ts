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

/** The content of the file that `npm start` writes to its data directory while it runs. */
interface ReadyFile {
  base_url: string
  operations_key: string
  api_key: string
  account_id: string
  temporal_address: string
}

/** A value and a description of its origin. */
export interface SettingValue {
  text: string
  from: string
}

/** The platform that a command uses, with its credentials. */
export interface Platform {
  baseUrl: string
  baseUrlFrom: string
  profile: string | undefined
  apiKey: SettingValue | undefined
  operationsKey: SettingValue | undefined
  /** The account of the local platform. */
  readyAccount: string | undefined
  /** True if the API key is from a flag, the environment or a profile, not from the local platform. */
  isKeyGiven: boolean
}

const RUNNING_HERE = 'the local platform'

const sameAddress = (text: string): string => text.replace(/\/+$/, '')

/** Finds the platform. Precedence: options, environment, profile, local platform. */
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
      `No platform is running here (${join(config.HEARTH_DATA_DIR, 'ready.json')} does not exist). Start one with \`npm start\`, log in to one with \`npx hearth login\`, or set --base-url or HEARTH_BASE_URL.`,
    )
  }
  const baseUrl = sameAddress(address.text)
  // Never send one platform's key to another.
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

function first(...places: readonly [string | undefined, string][]): SettingValue | undefined {
  for (const [text, from] of places) if (text) return { text, from }
  return undefined
}

/** Returns the named profile, else the profile of the last login. */
function chosenProfile(named: string): (Profile & { name: string }) | undefined {
  const { current, profiles } = readProfiles()
  const name = named || current
  if (name === null) return undefined
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (profile) return { ...profile, name }
  if (!named) return undefined
  const profileNames = Object.keys(profiles).join(', ') || 'none'
  throw usageError(
    `there is no profile ${name} (known: ${profileNames}); create it with \`npx hearth login --profile ${name}\``,
  )
}

/** Reads the ready file of the local platform; undefined if none is running. */
export function readReady(file: string): ReadyFile | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ReadyFile
  } catch (err) {
    const { code = '', message } = err as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new CliError(`${file} cannot be read: ${message}`)
  }
}
