const MAX_GROUP = 64

interface PendingRead<T> {
  readonly id: string
  readonly resolve: (value: T | undefined) => void
  readonly reject: (err: unknown) => void
}

/**
 * Batches reads of rows by id: the ids that are requested for an owner within one turn of the event loop share one
 * read, and so one round trip. A read that hangs does not delay later ones.
 */
export class GatheredReads<T> {
  readonly #read: (ownerId: string, ids: readonly string[]) => Promise<ReadonlyMap<string, T>>
  /** The reads of this turn of the event loop, by owner. */
  readonly #waiting = new Map<string, PendingRead<T>[]>()

  /** @param read returns the rows that an owner has, by id. */
  constructor(read: (ownerId: string, ids: readonly string[]) => Promise<ReadonlyMap<string, T>>) {
    this.#read = read
  }

  /** Returns a row, read no earlier than this call; undefined when the owner has no row with this id. */
  get(ownerId: string, id: string): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const one = { id, resolve, reject }
      const waiting = this.#waiting.get(ownerId)
      if (waiting && waiting.length < MAX_GROUP) return void waiting.push(one)
      const group = [one]
      this.#waiting.set(ownerId, group)
      setImmediate(() => {
        if (this.#waiting.get(ownerId) === group) this.#waiting.delete(ownerId)
        void this.#readGroup(ownerId, group)
      })
    })
  }

  /** Never rejects. */
  async #readGroup(ownerId: string, group: readonly PendingRead<T>[]): Promise<void> {
    try {
      const found = await this.#read(ownerId, [...new Set(group.map(({ id }) => id))])
      for (const { id, resolve } of group) resolve(found.get(id))
    } catch (err) {
      for (const { reject } of group) reject(err)
    }
  }
}
