import { getOrThrow } from './at.ts'

interface BucketPosition<T> {
  bucket: T[]
  at: number
}

/** Items in buckets by whole points within fixed bounds. Adding, moving and removing an item takes constant time. */
export class ScoreBuckets<T> {
  readonly #least: number
  readonly #buckets: T[][]
  readonly #places = new Map<T, BucketPosition<T>>()

  constructor(least: number, most: number) {
    this.#least = least
    this.#buckets = Array.from({ length: most - least + 1 }, () => [])
  }

  get size(): number {
    return this.#places.size
  }

  /** Adds an item, or moves it to the bucket of its new points. */
  add(item: T, points: number): void {
    const bucket = this.#buckets[points - this.#least]
    if (!bucket) throw new RangeError(`${points} points are out of bounds`)
    const position = this.#places.get(item)
    if (position?.bucket === bucket) return
    if (position) {
      this.#takeOut(item, position)
      position.bucket = bucket
      position.at = bucket.length
    } else {
      this.#places.set(item, { bucket, at: bucket.length })
    }
    bucket.push(item)
  }

  delete(item: T): void {
    const position = this.#places.get(item)
    if (!position) return
    this.#places.delete(item)
    this.#takeOut(item, position)
  }

  /** The last item of the bucket moves into the gap. */
  #takeOut(item: T, { bucket, at }: BucketPosition<T>): void {
    const last = bucket.pop()
    if (last === undefined || last === item) return
    bucket[at] = last
    getOrThrow(this.#places, last).at = at
  }

  /** Yields the non-empty buckets, most points first. */
  *best(): Generator<readonly T[]> {
    for (let i = this.#buckets.length - 1; i >= 0; i--) {
      const bucket = this.#buckets[i]
      if (bucket && bucket.length > 0) yield bucket
    }
  }
}

/**
 * Picks by the power of two choices. Draws two random items that fit from the best bucket that has any, and returns the
 * better one by `prefer`. Undefined when nothing fits.
 */
export function drawBest<T>(
  buckets: ScoreBuckets<T>,
  fits: (item: T) => boolean,
  prefer: (a: T, b: T) => T,
  random: () => number,
): T | undefined {
  for (const bucket of buckets.best()) {
    const first = probe(bucket, fits, undefined, random)
    if (first === undefined) continue
    const second = bucket.length > 1 ? probe(bucket, fits, first, random) : undefined
    return second === undefined ? first : prefer(first, second)
  }
  return undefined
}

/** Searches for an item that fits, starting at a random position. */
function probe<T>(
  bucket: readonly T[],
  fits: (item: T) => boolean,
  except: T | undefined,
  random: () => number,
): T | undefined {
  const start = Math.floor(random() * bucket.length)
  for (let i = 0; i < bucket.length; i++) {
    const item = bucket[(start + i) % bucket.length]
    if (item !== undefined && item !== except && fits(item)) return item
  }
  return undefined
}
