/** The most endpoints that are read at once; the gateway serves other requests in between. */
const MAX_PAGE_SIZE = 100
/** The bytes of manifests that one page should have: a schema may have a megabyte. */
const PAGE_BYTES = 4 * 1024 * 1024
const FIRST = 5
const GROWTH = 4

/** The number of endpoints to read next, by the size of those before. */
export class PageSize {
  #size = FIRST

  get size(): number {
    return this.#size
  }

  /** Notes that endpoints were read whose manifests have so many bytes. */
  note(endpoints: number, bytes: number): void {
    const fitting = Math.floor((PAGE_BYTES * endpoints) / Math.max(1, bytes))
    this.#size = Math.max(1, Math.min(MAX_PAGE_SIZE, this.#size * GROWTH, fitting))
  }
}
