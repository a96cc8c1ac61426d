import { isDear, weighJson } from '../../../http/bodies/json-weight.ts'

/** Shorter data cannot contain enough names to take more than a few milliseconds to parse. */
const WEIGHED_LENGTH = 16 * 1024

/**
 * Returns the data of a server-sent event, which may be JSON. Returns undefined for JSON that would block the gateway's
 * thread for long, because a model server may run on a tenant's node.
 */
export function dataOf(event: string): string | undefined {
  const data = event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length))
    .join('\n')
  if (data.length <= WEIGHED_LENGTH) return data
  const bytes = Buffer.from(data)
  return isDear(weighJson(bytes), bytes.length) ? undefined : data
}
