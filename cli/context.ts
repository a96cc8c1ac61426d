import type { Command } from 'commander'
import { AdminClient } from './admin-client.ts'
import { cliConfig } from './cli-config.ts'
import { usageError } from './cli-error.ts'
import { findPlatform, type GlobalOptions } from './platform.ts'

/** The platform that operator requests go to. */
export interface Context {
  client: AdminClient
  /** The account of the local embedded platform, for commands that need an account when none is given. */
  defaultAccount: string | undefined
  json: boolean
}

/** Connects to the platform with the operations key. */
export function open(command: Command): Context {
  const options = command.optsWithGlobals<GlobalOptions>()
  const { baseUrl, operationsKey, readyAccount } = findPlatform(options, cliConfig())
  if (!operationsKey) {
    throw usageError(
      `${baseUrl} requires an operations key for this: set HEARTH_OPERATIONS_KEY or pass --operations-key.`,
    )
  }
  return {
    client: new AdminClient(baseUrl, operationsKey.text),
    defaultAccount: readyAccount,
    json: options.json ?? false,
  }
}
