import type { Command } from 'commander'
import { hearth } from '../../client/index.ts'
import { AdminClient } from '../admin-client.ts'
import { baseUrl as parseBaseUrl, headerText } from '../arguments.ts'
import { cliConfig } from '../cli-config.ts'
import { usageError } from '../cli-error.ts'
import { toCliError } from '../failures.ts'
import type { GlobalOptions } from '../platform.ts'
import { print } from '../print.ts'
import { profilesFile, readProfiles, saveProfiles } from '../profiles.ts'
import { promptFor } from '../prompt.ts'

const FIRST_PROFILE = 'default'
const PROFILE_NAME = /^[\w.-]{1,64}$/

/** Stores a platform and its API key as a profile, after the platform has accepted the key. */
export function loginCommand(login: Command): void {
  login
    .addHelpText(
      'after',
      '\nPrompts for the key, or reads it from standard input: npx hearth login --base-url https://hearth.example < key.txt\nWith --operations-key, also stores that key.',
    )
    .action(async (_options: object, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>()
      const config = cliConfig()
      const stored = readProfiles()
      const name = nameOf(options.profile ?? config.HEARTH_PROFILE, FIRST_PROFILE)
      const known = options.baseUrl ?? config.HEARTH_BASE_URL ?? stored.profiles[name]?.base_url
      const baseUrl = (known ?? (await addressAsked())).replace(/\/+$/, '')
      const text =
        options.apiKey ??
        (config.HEARTH_API_KEY || (await promptFor(`API key for ${baseUrl}: `, { secret: true })))
      const key = { text: checked(headerText, text, 'the API key'), from: 'this login' }
      const me = await hearth({ baseUrl, apiKey: key.text })
        .me()
        .catch((err: unknown) => {
          throw toCliError(err, { baseUrl, key })
        })
      const { operationsKey } = options
      if (operationsKey !== undefined)
        await new AdminClient(baseUrl, operationsKey).call('GET', '/killswitch/status')
      saveProfiles({
        current: name,
        profiles: {
          ...stored.profiles,
          [name]: {
            base_url: baseUrl,
            api_key: key.text,
            ...(operationsKey !== undefined && { operations_key: operationsKey }),
          },
        },
      })
      const said = { profile: name, base_url: baseUrl, account: me.account, role: me.role }
      const json = options.json ?? false
      print(
        { json },
        said,
        `Logged in to ${baseUrl} as ${me.account.name} with role ${me.role}. Commands now use profile ${name} (${profilesFile()}).`,
      )
    })
}

/** Removes a profile and its keys from this machine. */
export function logoutCommand(logout: Command): void {
  logout.action((_options: object, command: Command) => {
    const options = command.optsWithGlobals<GlobalOptions>()
    const { current, profiles } = readProfiles()
    const name = nameOf(options.profile ?? cliConfig().HEARTH_PROFILE, current ?? FIRST_PROFILE)
    const { [name]: gone, ...others } = profiles
    if (!gone) {
      const known = Object.keys(profiles).join(', ') || 'none'
      throw usageError(`there is no profile ${name} (known: ${known})`)
    }
    saveProfiles({ current: current === name ? null : current, profiles: others })
    print(
      { json: options.json ?? false },
      { profile: name, base_url: gone.base_url },
      `Removed profile ${name} for ${gone.base_url}. Its key still works; revoke it with \`npx hearth keys revoke\`.`,
    )
  })
}

function nameOf(given: string, fallback: string): string {
  const name = given || fallback
  if (PROFILE_NAME.test(name)) return name
  throw usageError('--profile: a profile name has at most 64 letters, digits, ".", "_" and "-"')
}

async function addressAsked(): Promise<string> {
  if (!process.stdin.isTTY) throw usageError('the platform URL is required: pass --base-url')
  return checked(parseBaseUrl, await promptFor('Platform URL (http://127.0.0.1:8420): '), 'the URL')
}

/** Parses a prompted value with the parser of the option. */
function checked(parse: (text: string) => string, text: string, what: string): string {
  try {
    return parse(text)
  } catch (err) {
    throw usageError(`${what}: ${(err as Error).message}`)
  }
}
