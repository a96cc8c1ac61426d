import { valueAt, withValueAt } from './pointer.ts'

/** Sorts `x2` before `x10`. */
const NATURAL = new Intl.Collator('en', { numeric: true })

type Columns = Readonly<Record<string, unknown>>

/**
 * Returns an input with a vector in place of the value at a path. An object there holds the vector as columns, by the
 * natural order of their names; undefined when it has another number of them.
 */
export function withVector(input: Columns, path: string, vector: readonly number[]): unknown {
  const there = valueAt(input, path)
  if (!isColumns(there)) return withValueAt(input, path, vector)
  const [row] = asColumns(there, [vector])
  return row && withValueAt(input, path, row)
}

/**
 * Returns an input with the vectors of one text or of many. A list of one object there holds a row for each of them, as
 * its columns; undefined when it has another number of columns. Elsewhere many are lists of numbers, and one is written
 * as a vector.
 */
export function withVectors(input: Columns, path: string, vectors: readonly (readonly number[])[]): unknown {
  const there = valueAt(input, path)
  const [row, ...others] = Array.isArray(there) ? (there as unknown[]) : []
  if (isColumns(row) && others.length === 0) {
    const rows = asColumns(row, vectors)
    return rows.includes(undefined) ? undefined : withValueAt(input, path, rows)
  }
  const [first, ...more] = vectors
  return first && more.length === 0 ? withVector(input, path, first) : withValueAt(input, path, vectors)
}

/** Returns the vectors as objects with these columns; undefined for one of another length. */
function asColumns(
  columns: Columns,
  vectors: readonly (readonly number[])[],
): (Record<string, number | undefined> | undefined)[] {
  const names = Object.keys(columns).toSorted(NATURAL.compare)
  return vectors.map((vector) =>
    names.length === vector.length
      ? Object.fromEntries(names.map((name, i) => [name, vector[i]]))
      : undefined,
  )
}

const isColumns = (value: unknown): value is Columns =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
