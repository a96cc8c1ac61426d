import { HearthError } from '../client/index.ts'
import type { Issue } from '../domain/errors.ts'
import { CliError, WRONG_USE } from './cli-error.ts'
import type { SettingValue } from './platform.ts'

/** Status codes of requests that are wrong in themselves, so a retry can't help. */
const WRONG_REQUESTS: ReadonlySet<number> = new Set([401, 413, 422])

/** Converts an API error to the error that a command ends with: what failed, and what to do. */
export function toCliError(err: unknown, { baseUrl, key }: { baseUrl: string; key: SettingValue }): unknown {
  if (!(err instanceof HearthError)) return err
  const { status, code, message, retryAfter, requestId, details } = err
  if (code === 'unreachable')
    return new CliError(
      `Cannot reach ${baseUrl} (${message}). Is the platform running? Start one here with \`npm start\`, or pass another URL with --base-url.`,
    )
  if (code === 'unexpected_answer') return new CliError(`${baseUrl}: ${message}`)
  if (status === 401) {
    return new CliError(
      `${baseUrl} rejects this API key (from ${key.from}). Use another with \`npx hearth login\`, HEARTH_API_KEY or --api-key.`,
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
