import type { Command } from 'commander'
import { AdminClient } from './admin-client.ts'
import { cliConfig } from './cli-config.ts'
import { usageError } from './cli-error.ts'
import { findPlatform, type GlobalOptions } from './platform.ts'

/** The platform to send requests of operators to. */
export interface Context {
  client: AdminClient
  /** The account of a running embedded platform, for commands that need one and have no option. */
  defaultAccount: string | undefined
  json: boolean
}

/** Opens the platform for a command of operators. */
export function open(command: Command): Context {
  const options = command.optsWithGlobals<GlobalOptions>()
  const { baseUrl, operationsKey, readyAccount } = findPlatform(options, cliConfig())
  if (!operationsKey) {
    throw usageError(
      `An operations key is needed for ${baseUrl}: set HEARTH_OPERATIONS_KEY or pass --operations-key.`,
    )
  }
  return {
    client: new AdminClient(baseUrl, operationsKey.text),
    defaultAccount: readyAccount,
    json: options.json ?? false,
  }
}
