import { valueAt, withValueAt } from './pointer.ts'

/** Sorts `x2` before `x10`. */
const NATURAL = new Intl.Collator('en', { numeric: true })

type Columns = Readonly<Record<string, unknown>>

/**
 * Returns an input with a vector at a path. If there is an object at the path, its columns get the vector's numbers, in
 * the natural order of the column names; undefined when the counts differ.
 */
export function withVector(input: Columns, path: string, vector: readonly number[]): unknown {
  const there = valueAt(input, path)
  if (!isColumns(there)) return withValueAt(input, path, vector)
  const [row] = asColumns(there, [vector])
  return row && withValueAt(input, path, row)
}

/**
 * Returns an input with the vectors of one or more texts. A list of one object at the path becomes one row per vector,
 * with its numbers as the columns; undefined when the counts differ. Elsewhere, several vectors become a list of lists,
 * and a single one is written as a plain vector.
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

/** Returns the vectors as objects with these columns; undefined if one has a different length. */
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
