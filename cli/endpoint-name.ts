import { InvalidArgumentError } from 'commander'
import { ENDPOINT_NAME } from '../schemas/endpoint.ts'

/** Parses the name of a new endpoint, so that an invalid name fails before any request. */
export function endpointName(text: string): string {
  const { pattern, words, maxLength } = ENDPOINT_NAME
  if (text.length <= maxLength && new RegExp(pattern).test(text)) return text
  throw new InvalidArgumentError(`It ${words}, and have at most ${maxLength} characters.`)
}
