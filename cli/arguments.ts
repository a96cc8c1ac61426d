import { InvalidArgumentError } from 'commander'

/** Parses an option that counts something. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a whole number of at least 0.')
}

/** Parses an option that is a status of HTTP. */
export function httpStatus(text: string): number {
  if (/^[2-5]\d\d$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a status of HTTP from 200 to 599.')
}
