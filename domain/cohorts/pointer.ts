import { short } from '../fault-words.ts'

/** Splits a JSON Pointer (RFC 6901) into its tokens; none for the whole value. */
export const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))

/** The next place of a list, as in RFC 6902. */
const APPEND = '-'

/** Returns whether a write to one of these places would change what is at the other. Each item at a list's end is a new one. */
export const overlap = (a: string, b: string): boolean =>
  (a === b && !tokensOf(a).includes(APPEND)) || a.startsWith(`${b}/`) || b.startsWith(`${a}/`)

/** Returns the value at a place; undefined when there is none. */
export function valueAt(value: unknown, pointer: string): unknown {
  let at = value
  for (const token of tokensOf(pointer)) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, token)) return undefined
    at = (at as Record<string, unknown>)[token]
  }
  return at
}

const MAX_MEMBERS_REPORTED = 20

/** Returns what a value has on the way to a place that it lacks: the length of a list or the members of an object, no values. */
export function whereItEnds(value: unknown, pointer: string): string {
  let at = value
  let place = ''
  for (const token of tokensOf(pointer)) {
    const next = valueAt(at, `/${escaped(token)}`)
    if (next === undefined) break
    at = next
    place += `/${escaped(token)}`
  }
  const name = place === '' ? 'it' : `"${place}"`
  if (Array.isArray(at)) return `${name} is a list of ${at.length}`
  if (typeof at !== 'object' || at === null) return `${name} is neither an object nor a list`
  const members = Object.keys(at)
  const told = members.slice(0, MAX_MEMBERS_REPORTED).map((member) => `"${short(member)}"`)
  const more = members.length > told.length ? ` and ${members.length - told.length} more` : ''
  return members.length === 0 ? `${name} is empty` : `${name} has ${told.join(', ')}${more}`
}

const escaped = (token: string): string => token.replaceAll('~', '~0').replaceAll('/', '~1')

/** A place alone makes no more items than these, in all lists on its way together. */
const MAX_ITEMS = 1_024
const INDEX = /^(?:0|[1-9]\d{0,5})$/
const isIndex = (token: string): boolean => token === APPEND || INDEX.test(token)

/** A place cannot be made: a value on the way is neither an object nor a list, or indexes are far beyond the ends of lists. */
export class PointerError extends Error {
  override readonly name = 'PointerError'
}

/**
 * Returns a value with another one at a place. Objects on the way are made where they are absent; an index makes a list,
 * whose items before it are null. Nothing that was given is changed.
 */
export function withValueAt(value: unknown, pointer: string, put: unknown): unknown {
  return write(value, tokensOf(pointer), put, { pointer, left: MAX_ITEMS })
}

interface Writing {
  pointer: string
  /** So many items may still be made before those that the place names. */
  left: number
}

function write(value: unknown, [token, ...rest]: readonly string[], put: unknown, writing: Writing): unknown {
  const { pointer } = writing
  if (token === undefined) return put
  const isItem = isIndex(token)
  if (Array.isArray(value) || (value === undefined && isItem)) {
    const list: unknown[] = [...((value as unknown[] | undefined) ?? [])]
    const at = token === APPEND ? list.length : Number(token)
    if (!isItem || at > Math.max(list.length, MAX_ITEMS) || at - list.length > writing.left)
      throw new PointerError(`"${pointer}" names no place in a list of ${list.length}`)
    writing.left -= Math.max(0, at - list.length)
    while (list.length < at) list.push(null)
    list[at] = write(list[at] ?? undefined, rest, put, writing)
    return list
  }
  if (value !== undefined && (typeof value !== 'object' || value === null))
    throw new PointerError(`"${pointer}" leads through a value that is neither an object nor a list`)
  const object = value as Record<string, unknown> | undefined
  const inner = object && Object.hasOwn(object, token) ? object[token] : undefined
  // A computed member is an own one even for the name `__proto__`.
  return { ...object, [token]: write(inner, rest, put, writing) }
}
