const MAX_GROUP = 64

interface Waiting<T> {
  readonly id: string
  readonly resolve: (value: T | undefined) => void
  readonly reject: (err: unknown) => void
}

/**
 * Reads rows by id, one read of an owner at a time: ids that are asked for meanwhile share the next one. A single read is not
 * delayed, and many at once cost one round trip for each group instead of one each.
 */
export class GatheredReads<T> {
  readonly #read: (ownerId: string, ids: readonly string[]) => Promise<ReadonlyMap<string, T>>
  /** The reads that wait, by owner; an owner without a read in flight has no entry. */
  readonly #waiting = new Map<string, Waiting<T>[]>()

  /** @param read returns the rows that an owner has, by id. */
  constructor(read: (ownerId: string, ids: readonly string[]) => Promise<ReadonlyMap<string, T>>) {
    this.#read = read
  }

  /** Returns a row as it is at the call or later; undefined when the owner has none with this id. */
  get(ownerId: string, id: string): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const one = { id, resolve, reject }
      const waiting = this.#waiting.get(ownerId)
      if (waiting) return void waiting.push(one)
      const first = [one]
      this.#waiting.set(ownerId, first)
      void this.#readGroups(ownerId, first)
    })
  }

  /** Never rejects. */
  async #readGroups(ownerId: string, waiting: Waiting<T>[]): Promise<void> {
    while (waiting.length > 0) {
      const group = waiting.splice(0, MAX_GROUP)
      try {
        const found = await this.#read(ownerId, [...new Set(group.map(({ id }) => id))])
        for (const { id, resolve } of group) resolve(found.get(id))
      } catch (err) {
        for (const { reject } of group) reject(err)
      }
    }
    this.#waiting.delete(ownerId)
  }
}
