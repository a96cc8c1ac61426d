import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { readConfig } from '../../platform/config.ts'
import { usageError } from '../cli-error.ts'
import { id } from '../commands/accounts.ts'
import { findPlatform, type GlobalOptions } from '../context.ts'
import { PlatformClient } from '../platform-client.ts'

interface CohortOptions extends GlobalOptions {
  apiKey?: string
  account?: string
  user?: string
}

/** Returns a client with the key, account and user of the options, the environment or a platform running here. */
export async function reached(command: Command): Promise<{ client: PlatformClient; json: boolean }> {
  const options = command.optsWithGlobals<CohortOptions>()
  const config = readConfig()
  const { baseUrl, ready } = findPlatform(options, config)
  const key = options.apiKey ?? (config.HEARTH_API_KEY || ready?.api_key)
  const account = options.account ?? (config.HEARTH_ACCOUNT_ID || ready?.account_id)
  if (!key) {
    // A wrong address is the nearer reason to have no key.
    await new PlatformClient(baseUrl, { prefix: '', headers: {}, credential: 'requests' }).probe()
    throw usageError(
      `An API key is needed for ${baseUrl}: set HEARTH_API_KEY or pass --api-key. \`npx hearth keys create\` makes one.`,
    )
  }
  if (!account)
    throw usageError('The account of the API key is needed: set HEARTH_ACCOUNT_ID or pass --account.')
  const client = new PlatformClient(baseUrl, {
    prefix: '',
    headers: {
      'x-api-key': key,
      'x-account-id': id(account),
      'x-user-id': options.user ?? (config.HEARTH_USER_ID || userInfo().username),
    },
    credential: 'this API key. Check HEARTH_API_KEY or --api-key',
  })
  return { client, json: options.json ?? false }
}
