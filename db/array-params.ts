/**
 * Formats an array for Postgres if its values need no quotes: ids, numbers, status names. This is much cheaper than
 * `pg`'s formatting, which quotes every element.
 */
export const bareArray = (values: readonly (string | number | boolean | null)[]): string =>
  `{${values.map((value) => value ?? 'NULL').join()}}`

/** Returns strings that may need quotes, or null if all are null: `unnest` expands that to nulls. */
export const textsOrNull = (values: readonly (string | null)[]): readonly (string | null)[] | null =>
  values.every((value) => value === null) ? null : values

const BYTEA = 17
const HEADER = 20
const NO_BYTES = -1

/** Encodes `bytea[]` in the binary format, so that no byte is converted to text; null when all elements are null. */
export function bytesOrNull(values: readonly (Uint8Array | null)[]): Buffer | null {
  let size = HEADER
  let some = false
  for (const value of values) {
    size += 4 + (value?.length ?? 0)
    some ||= value !== null
  }
  if (!some) return null

  const array = Buffer.allocUnsafe(size)
  // Header: number of dimensions, null flag, element type; then length and lower bound of the only dimension.
  let at = 0
  for (const word of [1, 1, BYTEA, values.length, 1]) at = array.writeInt32BE(word, at)
  for (const value of values) {
    at = array.writeInt32BE(value?.length ?? NO_BYTES, at)
    if (!value) continue
    array.set(value, at)
    at += value.length
  }
  return array
}
