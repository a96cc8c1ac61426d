import { InvalidArgumentError } from 'commander'
import { MOST_DEADLINE_S } from '../schemas/cohort-plan.ts'
import { ENDPOINT_NAME } from '../schemas/endpoint.ts'

/** Parses an option that is a count. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a whole number of at least 0.')
}

/** Parses an option that is the deadline of a run. */
export function deadline(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MOST_DEADLINE_S) return seconds
  throw new InvalidArgumentError(`It has to be a whole number of seconds from 1 to ${MOST_DEADLINE_S}.`)
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

/** Parses an option that lists tools. */
export function toolList(text: string): string[] {
  const tools = text.split(',').map((tool) => tool.trim())
  if (tools.every(Boolean)) return tools
  throw new InvalidArgumentError('It has to be a list such as sales-*,training.merge without empty names.')
}

/** Parses an option that must not be blank. */
export function filled(text: string): string {
  if (/\S/.test(text)) return text
  throw new InvalidArgumentError('It must not be blank.')
}

/** Parses an option that names a new endpoint, before anything is sent for it. */
export function endpointName(text: string): string {
  const { pattern, words, maxLength } = ENDPOINT_NAME
  if (text.length <= maxLength && new RegExp(pattern).test(text)) return text
  throw new InvalidArgumentError(`It ${words}, ${maxLength} characters at most.`)
}
