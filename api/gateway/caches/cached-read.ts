import { outsideAccounts } from '../../../db/account-share.ts'

/** Callers no longer join a read that has taken longer than this, because its connection may be lost. */
const MAX_READ_MS = 10_000

/** Caches the result of a costly read for a while; concurrent callers share one read. */
export class CachedRead<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: number
  #reading: Promise<T> | undefined
  #freshUntil = 0

  constructor(read: () => Promise<T>, freshMs: number) {
    this.#read = read
    this.#freshMs = freshMs
  }

  get(): Promise<T> {
    if (this.#reading && performance.now() < this.#freshUntil) return this.#reading
    this.#freshUntil = performance.now() + MAX_READ_MS
    const reading = outsideAccounts(this.#read)
    this.#reading = reading
    reading.then(
      () => (this.#freshUntil = performance.now() + this.#freshMs),
      () => (this.#freshUntil = 0),
    )
    return reading
  }
}
