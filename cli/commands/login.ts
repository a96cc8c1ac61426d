import type { Command } from 'commander'
import { hearth } from '../../client/index.ts'
import { AdminClient } from '../admin-client.ts'
import { baseUrl as parseBaseUrl, headerText } from '../arguments.ts'
import { cliConfig } from '../cli-config.ts'
import { usageError } from '../cli-error.ts'
import { inWordsOf } from '../failures.ts'
import type { GlobalOptions } from '../platform.ts'
import { print } from '../print.ts'
import { profilesFile, readProfiles, saveProfiles } from '../profiles.ts'
import { ask } from '../prompt.ts'

const FIRST_PROFILE = 'default'
const PROFILE_NAME = /^[\w.-]{1,64}$/

/** Keeps a platform and its key, once the platform has taken the key. */
export function loginCommand(login: Command): void {
  login
    .addHelpText(
      'after',
      '\nThe key is asked for, or read from standard input: npx hearth login --base-url https://hearth.example < key.txt\nWith --operations-key that key is kept too.',
    )
    .action(async (_options: object, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>()
      const config = cliConfig()
      const stored = readProfiles()
      const name = nameOf(options.profile ?? config.HEARTH_PROFILE, FIRST_PROFILE)
      const known = options.baseUrl ?? config.HEARTH_BASE_URL ?? stored.profiles[name]?.base_url
      const baseUrl = (known ?? (await addressAsked())).replace(/\/+$/, '')
      const text =
        options.apiKey ?? (config.HEARTH_API_KEY || (await ask(`API key for ${baseUrl}: `, { secret: true })))
      const key = { text: checked(headerText, text, 'the API key'), from: 'this login' }
      const me = await hearth({ baseUrl, apiKey: key.text })
        .me()
        .catch((err: unknown) => {
          throw inWordsOf(err, { baseUrl, key })
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
        `Logged in to ${baseUrl} as ${me.account.name}, with the role ${me.role}. Commands use profile ${name} from now on (${profilesFile()}).`,
      )
    })
}

/** Forgets a platform and its keys. */
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
      `Profile ${name} for ${gone.base_url} is forgotten here. Its key still works: \`npx hearth keys revoke\` ends it.`,
    )
  })
}

function nameOf(given: string, fallback: string): string {
  const name = given || fallback
  if (PROFILE_NAME.test(name)) return name
  throw usageError('--profile: the name of a profile is letters, digits, ".", "_" and "-", 64 at most')
}

async function addressAsked(): Promise<string> {
  if (!process.stdin.isTTY) throw usageError('the address of the platform is needed: pass --base-url')
  return checked(parseBaseUrl, await ask('Address of the platform (http://127.0.0.1:8420): '), 'the address')
}

/** Parses what was not given as an option in the way of the option. */
function checked(parse: (text: string) => string, text: string, what: string): string {
  try {
    return parse(text)
  } catch (err) {
    throw usageError(`${what}: ${(err as Error).message}`)
  }
}
