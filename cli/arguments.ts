import { InvalidArgumentError, Option } from 'commander'

/** Parses an option that is a count. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a whole number of at least 0.')
}

/** Parses an option that is a count, or `default` to clear it (commander takes null for a missing value). */
export function countOrDefault(text: string): number | 'default' {
  if (text === 'default') return text
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a whole number of at least 0, or default.')
}

const GB = 1e9

/** Parses an option that is a storage quota in gigabytes; returns bytes, or `default` for that of the platform (commander takes null for a missing value). */
export function storageQuota(text: string): number | 'default' {
  if (text === 'default') return text
  if (/^\d{1,6}(\.\d{1,9})?$/.test(text)) return Math.round(Number(text) * GB)
  throw new InvalidArgumentError(
    'It has to be a number of gigabytes such as 500 or 0.5, 0 for no limit, or default for that of the platform.',
  )
}

/** Parses an option that is a port of this machine. */
export function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new InvalidArgumentError('It has to be a port: a whole number from 0 (any free one) to 65535.')
}

/** Parses an option that is an HTTP status. */
export function httpStatus(text: string): number {
  if (/^[2-5]\d\d$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a status of HTTP from 200 to 599.')
}

/** Parses an option that is the URL of a platform. */
export function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url && (url.protocol === 'http:' || url.protocol === 'https:') && url.search === '' && url.hash === '')
    return text
  throw new InvalidArgumentError('It has to be an address such as http://127.0.0.1:8420.')
}

/** Parses an option that becomes a request header. */
export function headerText(text: string): string {
  if (/^[!-~]+$/.test(text)) return text
  throw new InvalidArgumentError('It has to be one word of printable ASCII characters.')
}

/** Appends a signing secret to the earlier ones. */
export function signingSecret(text: string, earlier: string[]): string[] {
  if (/^whsec_[A-Za-z0-9_-]+$/.test(text)) return [...earlier, text]
  throw new InvalidArgumentError(
    'It has to be a signing secret, whsec_ and what follows it, exactly as the endpoint showed it when it was made.',
  )
}

/** Returns the parser of an option that lists names. */
const listLike = (example: string) => (text: string) => {
  const names = text.split(',').map((name) => name.trim())
  if (names.every(Boolean)) return names
  throw new InvalidArgumentError(`It has to be a list such as ${example} without empty names.`)
}

/** Parses an option that lists tools. */
export const toolList = listLike('sales-*,training.merge')

/** Parses an option that lists names or ids of endpoints. */
export const nameList = listLike('sales-2026,tiny')

/** Parses an option that must not be blank. */
export function filled(text: string): string {
  if (/\S/.test(text)) return text
  throw new InvalidArgumentError('It must not be blank.')
}

/** Parses an option that is an amount. */
export function amount(text: string): number {
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a number of at least 0, such as 2.5.')
}

/** Parses an option that is a time. */
export function timeOf(text: string): string {
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? new Date(text) : new Date(Number.NaN)
  if (!Number.isNaN(time.getTime())) return time.toISOString()
  throw new InvalidArgumentError('It has to be a day or a time, such as 2026-11-30 or 2026-11-30T12:00:00Z.')
}

/** The option by what a list is sorted. */
export const sortOption = (): Option =>
  new Option('--sort <by>', 'by this, created_at unless told otherwise').choices(['created_at', 'name'])

/** The option which way a list is sorted. */
export const orderOption = (): Option =>
  new Option('--order <order>', 'this way, desc unless told otherwise').choices(['asc', 'desc'])
