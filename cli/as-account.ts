import type { Command } from 'commander'
import { type Hearth, hearth } from '../client/index.ts'
import { cliConfig } from './cli-config.ts'
import { usageError } from './cli-error.ts'
import { inWordsOf } from './failures.ts'
import { findPlatform, type Found, type GlobalOptions } from './platform.ts'

/** The platform for the account of a key. */
export interface AccountContext {
  h: Hearth
  baseUrl: string
  key: Found
  json: boolean
}

/** Opens the platform for the account of the key that is found. */
export function openAccount(options: GlobalOptions): AccountContext {
  const { baseUrl, apiKey } = findPlatform(options, cliConfig())
  if (!apiKey) throw noKeyFor(baseUrl)
  return { h: hearth({ baseUrl, apiKey: apiKey.text }), baseUrl, key: apiKey, json: options.json ?? false }
}

/** Makes the error of a command that has no API key. */
export const noKeyFor = (baseUrl: string) =>
  usageError(
    `An API key is needed for ${baseUrl}: log in with \`npx hearth login\`, set HEARTH_API_KEY or pass --api-key. \`npx hearth keys create\` makes one.`,
  )

type Action<A extends unknown[]> = (context: AccountContext, ...args: A) => Promise<void> | void

/** Makes the action of a command for an account; what fails is told with what to do about it. */
export const asAccount =
  <A extends unknown[]>(run: Action<A>) =>
  async (...args: [...A, Command]): Promise<void> => {
    const command = args.at(-1) as Command
    const context = openAccount(command.optsWithGlobals<GlobalOptions>())
    try {
      await run(context, ...(args.slice(0, -1) as A))
    } catch (err) {
      throw inWordsOf(err, context)
    }
  }
