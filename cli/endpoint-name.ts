import { InvalidArgumentError } from 'commander'
import { ENDPOINT_NAME } from '../schemas/endpoint.ts'

/** Parses an option that names a new endpoint, before anything is sent for it. */
export function endpointName(text: string): string {
  const { pattern, words, maxLength } = ENDPOINT_NAME
  if (text.length <= maxLength && new RegExp(pattern).test(text)) return text
  throw new InvalidArgumentError(`It ${words}, ${maxLength} characters at most.`)
}
