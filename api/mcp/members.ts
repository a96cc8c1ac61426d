import { ApiError } from '../../domain/errors.ts'

/** Far above what clients send; the widest table on the platform has this many columns. */
export const MAX_MESSAGE_MEMBERS = 2_000

/**
 * Throws `payload_too_large` for a message with too many members. The protocol's server copies and checks each member
 * of a message and of a tool's arguments several times, at 20 µs each. It does not check values
 * nested deeper in the arguments.
 */
export function checkMembers(message: unknown): void {
  const args = argumentsOf(message)
  if (countMembers(args) > MAX_MESSAGE_MEMBERS) throw tooMany('arguments')
  if (countValues(message, args) > MAX_MESSAGE_MEMBERS) throw tooMany('message')
}

function argumentsOf(message: unknown): unknown {
  const { params } = (message ?? {}) as { params?: { arguments?: unknown } | null }
  return params?.arguments
}

/** Counts the members of an object until there are too many. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  // `for...in` would first list all indices of an array.
  if (Array.isArray(value)) return value.length
  let members = 0
  for (const _name in value) if (++members > MAX_MESSAGE_MEMBERS) break
  return members
}

/** Counts all values of a message except those in `args`, until there are too many. */
function countValues(message: unknown, args: unknown): number {
  const waiting: unknown[] = [message]
  let values = 0
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (typeof value !== 'object' || value === null || value === args) continue
    if (Array.isArray(value) && values + value.length > MAX_MESSAGE_MEMBERS) return values + value.length
    for (const name in value) {
      if (++values > MAX_MESSAGE_MEMBERS) return values
      waiting.push((value as Record<string, unknown>)[name] ?? null)
    }
  }
  return values
}

const tooMany = (what: string): ApiError =>
  new ApiError(
    'payload_too_large',
    `the ${what} of an MCP request may have at most ${MAX_MESSAGE_MEMBERS.toLocaleString('en')} members; combine several values into one member`,
    { details: { max_members: MAX_MESSAGE_MEMBERS } },
  )
