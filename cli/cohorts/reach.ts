import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { hearth } from '../../client/index.ts'
import { noKeyFor } from '../as-account.ts'
import { cliConfig } from '../cli-config.ts'
import { toCliError } from '../failures.ts'
import { id } from '../ids.ts'
import { PlatformClient } from '../platform-client.ts'
import { findPlatform, type SettingValue, type GlobalOptions } from '../platform.ts'

interface CohortOptions extends GlobalOptions {
  account?: string
  user?: string
}

/** Returns a client with the key, account and user from the options, the environment or a local platform. */
export async function reached(command: Command): Promise<{ client: PlatformClient; json: boolean }> {
  const options = command.optsWithGlobals<CohortOptions>()
  const config = cliConfig()
  const { baseUrl, apiKey } = findPlatform(options, config)
  if (!apiKey) {
    // A wrong base URL is the likelier cause, so report that first.
    await new PlatformClient(baseUrl, { prefix: '', headers: {}, credential: 'requests' }).probe()
    throw noKeyFor(baseUrl)
  }
  const named = options.account ?? (config.HEARTH_ACCOUNT_ID || undefined)
  const account = named === undefined ? await accountOf(baseUrl, apiKey) : id(named)
  const client = new PlatformClient(baseUrl, {
    prefix: '',
    headers: {
      'x-api-key': apiKey.text,
      'x-account-id': account,
      'x-user-id': options.user ?? (config.HEARTH_USER_ID || userInfo().username),
    },
    credential: `this API key (from ${apiKey.from}). Use another with \`npx hearth login\`, HEARTH_API_KEY or --api-key`,
  })
  return { client, json: options.json ?? false }
}

async function accountOf(baseUrl: string, key: SettingValue): Promise<string> {
  try {
    return (await hearth({ baseUrl, apiKey: key.text }).me()).account.id
  } catch (err) {
    throw toCliError(err, { baseUrl, key })
  }
}
