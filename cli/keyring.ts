import type { Command } from 'commander'
import { hearth } from '../client/index.ts'
import type { ApiKey, CreateApiKey, CreatedApiKey } from '../schemas/api-key.ts'
import { AdminClient } from './admin-client.ts'
import { noKeyFor } from './as-account.ts'
import { cliConfig } from './cli-config.ts'
import { usageError } from './cli-error.ts'
import { toCliError } from './failures.ts'
import { id } from './ids.ts'
import { findPlatform, type SettingValue, type GlobalOptions } from './platform.ts'

/** The API keys of an account, managed by an operator or by the account itself. */
export interface Keyring {
  baseUrl: string
  json: boolean
  create(body: CreateApiKey): Promise<CreatedApiKey>
  list(): Promise<ApiKey[]>
  revoke(keyId: string): Promise<void>
}

/**
 * Opens the keys of the named account as an operator. Without a name, opens the keys of the account whose API key was
 * given, else of the local platform's account.
 */
export function openKeyring(command: Command, named: string | undefined): Keyring {
  const options = command.optsWithGlobals<GlobalOptions>()
  const { baseUrl, apiKey, isKeyGiven, operationsKey, readyAccount } = findPlatform(options, cliConfig())
  const common = { baseUrl, json: options.json ?? false }
  // `whoami` reports the account of a given key, so an unnamed account has to mean the same one.
  if (named === undefined && apiKey && isKeyGiven) return { ...common, ...asOwner(baseUrl, apiKey) }
  const account = named === undefined ? readyAccount : id(named)
  if (operationsKey && (account !== undefined || !apiKey))
    return { ...common, ...asOperator(new AdminClient(baseUrl, operationsKey.text), account) }
  if (named !== undefined)
    throw usageError(
      `Only operators can manage the keys of another account: set HEARTH_OPERATIONS_KEY or pass --operations-key.`,
    )
  if (!apiKey) throw noKeyFor(baseUrl)
  return { ...common, ...asOwner(baseUrl, apiKey) }
}

type Verbs = Omit<Keyring, 'baseUrl' | 'json'>

function asOperator(client: AdminClient, account: string | undefined): Verbs {
  const path = (): string => {
    if (account === undefined) throw usageError('An account is required; `hearth accounts list` shows them.')
    return `/accounts/${account}/keys`
  }
  return {
    create: (body) => client.call('POST', path(), body),
    list: async () => (await client.call<{ keys: ApiKey[] }>('GET', path())).keys,
    revoke: (keyId) => client.call('DELETE', `/keys/${keyId}`),
  }
}

function asOwner(baseUrl: string, key: SettingValue): Verbs {
  const { keys } = hearth({ baseUrl, apiKey: key.text })
  const withKeyringError = async <T>(asked: Promise<T>): Promise<T> => {
    try {
      return await asked
    } catch (err) {
      throw toCliError(err, { baseUrl, key })
    }
  }
  return {
    create: (body) => withKeyringError(keys.create(body)),
    list: async () => (await withKeyringError(keys.list())).keys,
    revoke: (keyId) => withKeyringError(keys.revoke(keyId)),
  }
}
