import { InvalidArgumentError, Option } from 'commander'

/** Parses an option that is a count. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected a whole number of at least 0.')
}

/** Parses an option that is a count, or `default` to clear it (commander treats null as a missing value). */
export function countOrDefault(text: string): number | 'default' {
  if (text === 'default') return text
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected a whole number of at least 0, or default.')
}

const GB = 1e9

/**
 * Parses a storage quota in gigabytes. Returns bytes, or `default` for the platform's default (commander treats null
 * as a missing value).
 */
export function storageQuota(text: string): number | 'default' {
  if (text === 'default') return text
  if (/^\d{1,6}(\.\d{1,9})?$/.test(text)) return Math.round(Number(text) * GB)
  throw new InvalidArgumentError(
    'Expected a number of gigabytes such as 500 or 0.5, 0 for no limit, or default for the platform default.',
  )
}

/** Parses an option that is a TCP port. */
export function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new InvalidArgumentError('Expected a port: a whole number from 0 (any free port) to 65535.')
}

/** Parses an option that is an HTTP status code. */
export function httpStatus(text: string): number {
  if (/^[2-5]\d\d$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected an HTTP status code from 200 to 599.')
}

/** Parses an option that is the base URL of a platform. */
export function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url && (url.protocol === 'http:' || url.protocol === 'https:') && url.search === '' && url.hash === '')
    return text
  throw new InvalidArgumentError('Expected a URL such as http://127.0.0.1:8420.')
}

/** Parses an option that is sent as a request header. */
export function headerText(text: string): string {
  if (/^[!-~]+$/.test(text)) return text
  throw new InvalidArgumentError('Expected printable ASCII characters without spaces.')
}

/** Appends a signing secret to the earlier ones. */
export function signingSecret(text: string, earlier: string[]): string[] {
  if (/^whsec_[A-Za-z0-9_-]+$/.test(text)) return [...earlier, text]
  throw new InvalidArgumentError(
    'Expected a signing secret (whsec_...), exactly as it was shown when the webhook endpoint was created.',
  )
}

/** Returns a parser for comma-separated names. */
const listLike = (example: string) => (text: string) => {
  const names = text.split(',').map((name) => name.trim())
  if (names.every(Boolean)) return names
  throw new InvalidArgumentError(`Expected a list such as ${example}, without empty names.`)
}

/** Parses a list of tools. */
export const toolList = listLike('sales-*,training.merge')

/** Parses a list of endpoint names or ids. */
export const nameList = listLike('sales-2026,tiny')

/** Parses an option that must not be blank. */
export function filled(text: string): string {
  if (/\S/.test(text)) return text
  throw new InvalidArgumentError('The value must not be blank.')
}

/** Parses an option that is an amount. */
export function amount(text: string): number {
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected a number of at least 0, such as 2.5.')
}

/** Parses an option that is a date or a time. */
export function timeOf(text: string): string {
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? new Date(text) : new Date(Number.NaN)
  if (!Number.isNaN(time.getTime())) return time.toISOString()
  throw new InvalidArgumentError('Expected a date or a time, such as 2026-11-30 or 2026-11-30T12:00:00Z.')
}

/** The sort field of a list. */
export const sortOption = (): Option =>
  new Option('--sort <by>', 'sort field (default: created_at)').choices(['created_at', 'name'])

/** The sort order of a list. */
export const orderOption = (): Option =>
  new Option('--order <order>', 'sort order (default: desc)').choices(['asc', 'desc'])
