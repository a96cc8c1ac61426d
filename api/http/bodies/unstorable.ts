import { type ApiError, invalid } from '../../../domain/errors.ts'
import { isStorable } from '../../../domain/storable-text.ts'
import type { MessagePart } from '../issues.ts'

/** The parts of a request that may contain text that the database rejects. */
export interface Texts {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** Finds the string that Postgres rejected: one with a NUL or an unpaired surrogate. */
export function unstorableText({ params, query, body }: Texts): ApiError | undefined {
  const places: [MessagePart, unknown][] = [
    ['body', body],
    ['query', query],
    ['path', params],
  ]
  for (const [where, value] of places) {
    const loc = find(value, [where])
    if (loc) return invalid(loc, 'must not contain a NUL character or an unpaired surrogate', 'text')
  }
  return undefined
}

type Loc = (string | number)[]

function find(value: unknown, loc: Loc): Loc | undefined {
  if (typeof value === 'string') return isStorable(value) ? undefined : loc
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    if (!isStorable(name)) return loc
    const found = find(member, [...loc, Array.isArray(value) ? Number(name) : name])
    if (found) return found
  }
  return undefined
}
