import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ConfigError } from '../platform/config.ts'
import type { Config } from '../platform/config.ts'

/** The options of an embedded platform. */
export interface EmbeddedOptions {
  dataDir: string
  port: number
  readyFile?: string
  fresh: boolean
}

/** Why the platform does not start, as a message for people: it is printed without a stack trace. */
export class StartError extends Error {
  override name = 'StartError'
}

/** A mistake in the command line, the environment or the machine's set-up. */
export class UsageError extends StartError {
  override name = 'UsageError'
}

/** Prints why a main process failed, and returns its exit code. */
export function explain(err: unknown): number {
  const wrongUse = err instanceof UsageError || err instanceof ConfigError
  if (wrongUse || err instanceof StartError) console.error(err.message)
  else console.error(err)
  return wrongUse ? 2 : 1
}

export const START_HELP = `npm start [-- options]

Starts PostgreSQL, Temporal, the API, the workers and one CPU node, and keeps them up until Ctrl-C or SIGTERM.

  --ready-file F   write addresses and keys as JSON to F once the platform can serve
  --fresh          delete the data of earlier starts from the data directory
  --help           show this help

Environment: HEARTH_PORT (default 8420, 0 = any free port), HEARTH_DATA_DIR (default .hearth),
HEARTH_CACHE_DIR, TEMPORAL_ADDRESS and DATABASE_URL (your own servers), and the rest of docs/configuration.md.
`

/** Reads the options of `npm start`; `undefined` means that help was requested. */
export function startOptions(argv: string[], config: Config): EmbeddedOptions | undefined {
  const values = parse(argv)
  if (values.help) return undefined
  const readyFile = values['ready-file']
  if (readyFile === '') throw new UsageError('--ready-file needs a file name.')
  return {
    dataDir: config.HEARTH_DATA_DIR,
    port: config.HEARTH_PORT,
    fresh: values.fresh ?? false,
    ...(readyFile !== undefined && { readyFile: resolve(readyFile) }),
  }
}

function parse(argv: string[]) {
  try {
    const { values } = parseArgs({
      args: argv,
      strict: true,
      options: { 'ready-file': { type: 'string' }, fresh: { type: 'boolean' }, help: { type: 'boolean' } },
    })
    return values
  } catch (err) {
    throw new UsageError(`${(err as Error).message.replace(/\. .*$/s, '')}. See npm start -- --help.`)
  }
}
