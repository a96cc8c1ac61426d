const MAX_GROUP = 64

interface Waiting<T> {
  readonly id: string
  readonly resolve: (value: T | undefined) => void
  readonly reject: (err: unknown) => void
}

/**
 * Reads rows by id: the ids of an owner that are asked for in one turn of the event loop share a read, which costs one round trip
 * for all of them. A read that hangs delays no later one.
 */
export class GatheredReads<T> {
  readonly #read: (ownerId: string, ids: readonly string[]) => Promise<ReadonlyMap<string, T>>
  /** The reads of this turn of the event loop, by owner. */
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
  async #readGroup(ownerId: string, group: readonly Waiting<T>[]): Promise<void> {
    try {
      const found = await this.#read(ownerId, [...new Set(group.map(({ id }) => id))])
      for (const { id, resolve } of group) resolve(found.get(id))
    } catch (err) {
      for (const { reject } of group) reject(err)
    }
  }
}
