import type { Command } from 'commander'
import { type Hearth, hearth } from '../client/index.ts'
import { cliConfig } from './cli-config.ts'
import { usageError } from './cli-error.ts'
import { toCliError } from './failures.ts'
import { findPlatform, type SettingValue, type GlobalOptions } from './platform.ts'

/** A client of the platform that acts for the account of an API key. */
export interface AccountContext {
  h: Hearth
  baseUrl: string
  key: SettingValue
  json: boolean
}

/** Connects to the platform with the API key from the options, the environment or a profile. */
export function openAccount(options: GlobalOptions): AccountContext {
  const { baseUrl, apiKey } = findPlatform(options, cliConfig())
  if (!apiKey) throw noKeyFor(baseUrl)
  return { h: hearth({ baseUrl, apiKey: apiKey.text }), baseUrl, key: apiKey, json: options.json ?? false }
}

/** Returns the error for a command that has no API key. */
export const noKeyFor = (baseUrl: string) =>
  usageError(
    `${baseUrl} requires an API key: log in with \`npx hearth login\`, set HEARTH_API_KEY or pass --api-key. Create one with \`npx hearth keys create\`.`,
  )

type Action<A extends unknown[]> = (context: AccountContext, ...args: A) => Promise<void> | void

/** Wraps the action of an account command, and turns errors into messages that say what to do. */
export const asAccount =
  <A extends unknown[]>(run: Action<A>) =>
  async (...args: [...A, Command]): Promise<void> => {
    const command = args.at(-1) as Command
    const context = openAccount(command.optsWithGlobals<GlobalOptions>())
    try {
      await run(context, ...(args.slice(0, -1) as A))
    } catch (err) {
      throw toCliError(err, context)
    }
  }
