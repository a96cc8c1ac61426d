/**
 * An array for Postgres of values that need no quotes: ids, numbers, names of states. Much cheaper than what `pg` makes of a
 * list, which quotes every element.
 */
export const bareArray = (values: readonly (string | number | boolean | null)[]): string =>
  `{${values.map((value) => value ?? 'NULL').join()}}`

/** A list of texts that may need quotes; null, which `unnest` fills up with nulls, when there is none. */
export const textsOrNull = (values: readonly (string | null)[]): readonly (string | null)[] | null =>
  values.every((value) => value === null) ? null : values

const BYTEA = 17
const HEADER = 20
const NO_BYTES = -1

/** `bytea[]` in the binary format, so that no byte is written as text; null when there is nothing in it. */
export function bytesOrNull(values: readonly (Uint8Array | null)[]): Buffer | null {
  let size = HEADER
  let some = false
  for (const value of values) {
    size += 4 + (value?.length ?? 0)
    some ||= value !== null
  }
  if (!some) return null

  const array = Buffer.allocUnsafe(size)
  // Dimensions, whether there are nulls, type; length and first index of the one dimension.
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
