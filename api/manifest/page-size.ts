/** The maximum number of endpoints per page; the gateway serves other requests between pages. */
const MAX_PAGE_SIZE = 100
/** The target bytes of manifests per page; a single schema may have a megabyte. */
const PAGE_BYTES = 4 * 1024 * 1024
const FIRST = 5
const GROWTH = 4

/** Computes how many endpoints to read next from the size of the previous ones. */
export class PageSize {
  #size = FIRST

  get size(): number {
    return this.#size
  }

  /** Records the number of endpoints read and the bytes of their manifests. */
  note(endpoints: number, bytes: number): void {
    const fitting = Math.floor((PAGE_BYTES * endpoints) / Math.max(1, bytes))
    this.#size = Math.max(1, Math.min(MAX_PAGE_SIZE, this.#size * GROWTH, fitting))
  }
}
