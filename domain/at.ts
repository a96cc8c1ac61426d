/*
 * Lookups that cannot fail by construction: a loop bounds the index, or every key was added before. If one fails
 * anyway, the error names the index or key right where the mistake is.
 */

/** Returns the element at an index. */
export function at<T>(list: readonly T[], index: number): T {
  const element = list[index]
  if (element === undefined) throw outOfRange(index, list.length)
  return element
}

type Numbers = Float64Array | Float32Array | Int32Array | Uint8Array

/** Returns the number at an index. Separate from `at`, because V8 is faster where it sees few kinds of lists. */
export function numberAt(numbers: Numbers, index: number): number {
  const number = numbers[index]
  if (number === undefined) throw outOfRange(index, numbers.length)
  return number
}

/** Returns the value for a key. */
export function getOrThrow<K, V>(map: { get(key: K): V | undefined }, key: K): V {
  const value = map.get(key)
  if (value === undefined) throw new RangeError(`there is no value for the key ${String(key)}`)
  return value
}

const outOfRange = (index: number, length: number): RangeError =>
  new RangeError(`index ${index} is out of range: the list has ${length} elements`)
