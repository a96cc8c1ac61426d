/** Splits a JSON Pointer (RFC 6901) into its tokens; none for the whole value. */
export const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))

/** Returns whether a write to one of these places would change what is at the other. */
export const overlap = (a: string, b: string): boolean =>
  a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`)

/** Returns the value at a place; undefined when there is none. */
export function valueAt(value: unknown, pointer: string): unknown {
  let at = value
  for (const token of tokensOf(pointer)) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, token)) return undefined
    at = (at as Record<string, unknown>)[token]
  }
  return at
}

/** The next place of a list, as in RFC 6902. */
const APPEND = '-'
const INDEX = /^(?:0|[1-9]\d{0,5})$/

/** A place cannot be made: a value on the way is neither an object nor a list, or an index is beyond a list's end. */
export class PointerError extends Error {
  override readonly name = 'PointerError'
}

/**
 * Returns a value with another one at a place. Objects on the way are made where they are absent; an index makes a list.
 * Nothing that was given is changed.
 */
export function withValueAt(value: unknown, pointer: string, put: unknown): unknown {
  return write(value, tokensOf(pointer), put, pointer)
}

function write(value: unknown, [token, ...rest]: readonly string[], put: unknown, pointer: string): unknown {
  if (token === undefined) return put
  const isIndex = token === APPEND || INDEX.test(token)
  if (Array.isArray(value) || (value === undefined && isIndex)) {
    const list: unknown[] = [...((value as unknown[] | undefined) ?? [])]
    const at = token === APPEND ? list.length : Number(token)
    if (!isIndex || at > list.length)
      throw new PointerError(`"${pointer}" names no place in a list of ${list.length}`)
    list[at] = write(list[at], rest, put, pointer)
    return list
  }
  if (value !== undefined && (typeof value !== 'object' || value === null))
    throw new PointerError(`"${pointer}" leads through a value that is neither an object nor a list`)
  const object = value as Record<string, unknown> | undefined
  const inner = object && Object.hasOwn(object, token) ? object[token] : undefined
  // A computed member is an own one even for the name `__proto__`.
  return { ...object, [token]: write(inner, rest, put, pointer) }
}
