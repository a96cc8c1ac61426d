import { short } from '../format-faults.ts'

/** Splits a JSON Pointer (RFC 6901) into its tokens; the pointer to the whole value has none. */
export const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))

/** The position after the last list item, as in RFC 6902. */
const APPEND = '-'

/** Returns whether a write to one of these paths would change the other. Appends to a list never overlap. */
export const overlap = (a: string, b: string): boolean =>
  (a === b && !tokensOf(a).includes(APPEND)) || a.startsWith(`${b}/`) || b.startsWith(`${a}/`)

/** Returns the value at a path; undefined if there is none. */
export function valueAt(value: unknown, pointer: string): unknown {
  let at = value
  for (const token of tokensOf(pointer)) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, token)) return undefined
    at = (at as Record<string, unknown>)[token]
  }
  return at
}

const MAX_MEMBERS_REPORTED = 20

/**
 * Describes where a path ends in a value that lacks it: the length of the list or the member names there, never values.
 */
export function whereItEnds(value: unknown, pointer: string): string {
  let at = value
  let path = ''
  for (const token of tokensOf(pointer)) {
    const next = valueAt(at, `/${escaped(token)}`)
    if (next === undefined) break
    at = next
    path += `/${escaped(token)}`
  }
  const name = path === '' ? 'it' : `"${path}"`
  if (Array.isArray(at)) return `${name} is a list of ${at.length}`
  if (typeof at !== 'object' || at === null) return `${name} is neither an object nor a list`
  const members = Object.keys(at)
  const listed = members.slice(0, MAX_MEMBERS_REPORTED).map((member) => `"${short(member)}"`)
  const more = members.length > listed.length ? ` and ${members.length - listed.length} more` : ''
  return members.length === 0 ? `${name} is empty` : `${name} has ${listed.join(', ')}${more}`
}

const escaped = (token: string): string => token.replaceAll('~', '~0').replaceAll('/', '~1')

/** The maximum number of list items that one path may create, across all lists along it. */
const MAX_ITEMS = 1_024
const INDEX = /^(?:0|[1-9]\d{0,5})$/
const isIndex = (token: string): boolean => token === APPEND || INDEX.test(token)

/** The path cannot be created: it leads through a scalar, or an index is far beyond the end of a list. */
export class PointerError extends Error {
  override readonly name = 'PointerError'
}

/**
 * Returns a copy of a value with `put` at a path. Missing objects along the path are created; an index creates a list,
 * padded with nulls. The original value is not changed.
 */
export function withValueAt(value: unknown, pointer: string, put: unknown): unknown {
  return write(value, tokensOf(pointer), put, { pointer, left: MAX_ITEMS })
}

interface PointerWrite {
  pointer: string
  /** How many padding items may still be created. */
  left: number
}

function write(
  value: unknown,
  [token, ...rest]: readonly string[],
  put: unknown,
  writing: PointerWrite,
): unknown {
  const { pointer } = writing
  if (token === undefined) return put
  const isItem = isIndex(token)
  if (Array.isArray(value) || (value === undefined && isItem)) {
    const list: unknown[] = [...((value as unknown[] | undefined) ?? [])]
    const at = token === APPEND ? list.length : Number(token)
    if (!isItem || at > Math.max(list.length, MAX_ITEMS) || at - list.length > writing.left)
      throw new PointerError(`"${pointer}" is not a valid position in a list of ${list.length}`)
    writing.left -= Math.max(0, at - list.length)
    while (list.length < at) list.push(null)
    list[at] = write(list[at] ?? undefined, rest, put, writing)
    return list
  }
  if (value !== undefined && (typeof value !== 'object' || value === null))
    throw new PointerError(`"${pointer}" leads through a value that is neither an object nor a list`)
  const object = value as Record<string, unknown> | undefined
  const inner = object && Object.hasOwn(object, token) ? object[token] : undefined
  // A computed member becomes an own property even for the name `__proto__`.
  return { ...object, [token]: write(inner, rest, put, writing) }
}
