import { valueAt, withValueAt } from './pointer.ts'

/** Sorts `x2` before `x10`. */
const NATURAL = new Intl.Collator('en', { numeric: true })

/**
 * Returns an input with a vector in place of the value at a path. An object there holds the vector as columns, by the
 * natural order of their names; undefined when it has another number of them.
 */
export function withVector(
  input: Readonly<Record<string, unknown>>,
  path: string,
  vector: readonly number[],
): unknown {
  const there = valueAt(input, path)
  if (typeof there !== 'object' || there === null || Array.isArray(there))
    return withValueAt(input, path, vector)
  const names = Object.keys(there).toSorted(NATURAL.compare)
  if (names.length !== vector.length) return undefined
  return withValueAt(input, path, Object.fromEntries(names.map((name, i) => [name, vector[i]])))
}
