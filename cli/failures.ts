import { HearthError } from '../client/index.ts'
import type { Issue } from '../domain/errors.ts'
import { CliError, WRONG_USE } from './cli-error.ts'
import type { Found } from './platform.ts'

/** Answers to a request that is wrong in itself, so that a repeat is of no use. */
const WRONG_REQUESTS: ReadonlySet<number> = new Set([401, 413, 422])

/** Returns the error that a command ends with: what has failed, and what to do. */
export function inWordsOf(err: unknown, { baseUrl, key }: { baseUrl: string; key: Found }): unknown {
  if (!(err instanceof HearthError)) return err
  const { status, code, message, retryAfter, requestId, details } = err
  if (code === 'unreachable')
    return new CliError(
      `Nothing answers at ${baseUrl} (${message}). Is the platform running? \`npm start\` starts one here; --base-url names another.`,
    )
  if (code === 'unexpected_answer') return new CliError(`${baseUrl}: ${message}`)
  if (status === 401) {
    return new CliError(
      `${baseUrl} refuses this API key, which is from ${key.from}. \`npx hearth login\` takes another; see also HEARTH_API_KEY and --api-key.`,
      WRONG_USE,
    )
  }
  const more = [
    ...(retryAfter === undefined ? [] : [`try again in ${retryAfter} s`]),
    ...(status >= 500 && requestId !== undefined ? [`request ${requestId}`] : []),
  ]
  const isWrong = WRONG_REQUESTS.has(status) || code === 'account_mismatch'
  const issues = details['issues'] as readonly Issue[] | undefined
  return new CliError([`${message} (${code})`, ...more].join('; '), isWrong ? WRONG_USE : 1, issues)
}
