import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Config, readConfig } from '../platform/config.ts'
import { AdminClient } from './admin-client.ts'
import { CliError, usageError } from './cli-error.ts'

/** Options that every command accepts. */
export interface GlobalOptions {
  baseUrl?: string
  operationsKey?: string
  json?: boolean
}

/** The file that `npm start` writes to its data directory while it is up. */
interface Ready {
  base_url: string
  operations_key: string
  api_key: string
  account_id: string
}

/** The platform to send requests to, and the credentials. */
export interface Context {
  client: AdminClient
  /** The account of a running embedded platform, for commands that need one and have no option. */
  defaultAccount: string | undefined
  json: boolean
}

/** Options override the environment, which overrides a platform running on this machine. */
export function openContext(options: GlobalOptions, config: Config = readConfig()): Context {
  const { baseUrl, ready } = findPlatform(options, config)
  const given = options.operationsKey ?? (config.HEARTH_OPERATIONS_KEY || undefined)
  const operationsKey = given ?? ready?.operations_key
  if (!operationsKey) {
    throw usageError(
      `An operations key is needed for ${baseUrl}: set HEARTH_OPERATIONS_KEY or pass --operations-key.`,
    )
  }
  return {
    client: new AdminClient(baseUrl, operationsKey),
    defaultAccount: ready?.account_id,
    json: options.json ?? false,
  }
}

/** Returns the address of the platform, and its keys if it is the one that runs on this machine. */
export function findPlatform(
  options: Pick<GlobalOptions, 'baseUrl'>,
  config: Config,
): { baseUrl: string; ready: Ready | undefined } {
  const readyFile = join(config.HEARTH_DATA_DIR, 'ready.json')
  const ready = readReady(readyFile)
  const baseUrl = options.baseUrl ?? config.HEARTH_BASE_URL ?? ready?.base_url
  if (!baseUrl) {
    throw usageError(
      `No platform is running here (there is no ${readyFile}). Start one with \`npm start\`, or name one with --base-url or HEARTH_BASE_URL.`,
    )
  }
  return { baseUrl, ready: baseUrl === ready?.base_url ? ready : undefined }
}

function readReady(file: string): Ready | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Ready
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new CliError(`${file} cannot be read: ${(err as Error).message}`)
  }
}
