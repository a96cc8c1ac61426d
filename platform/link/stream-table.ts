const FIRST_CAPACITY = 64

interface Slot<T> {
  stream: number
  value: T
}

const emptySlots = <T>(capacity: number): (Slot<T> | undefined)[] =>
  Array.from<undefined>({ length: capacity }).fill(undefined)

/**
 * The values of streams in flight, keyed by consecutive stream numbers. We don't use a `Map`: with a steady turnover,
 * each backing table that it has outgrown keeps the next one and all its values alive through every young garbage
 * collection, which costs a tenth of a gateway's CPU.
 */
export class StreamTable<T> {
  #slots = emptySlots<T>(FIRST_CAPACITY)
  /** Streams whose slot was taken by an older stream; there are only a few, because few streams live that long. */
  readonly #others = new Map<number, T>()
  #inSlots = 0

  get size(): number {
    return this.#inSlots + this.#others.size
  }

  get(stream: number): T | undefined {
    const slot = this.#slots[this.#indexOf(stream)]
    if (slot?.stream === stream) return slot.value
    return this.#others.size > 0 ? this.#others.get(stream) : undefined
  }

  has(stream: number): boolean {
    return this.get(stream) !== undefined
  }

  set(stream: number, value: T): void {
    if (this.#others.has(stream)) {
      this.#others.set(stream, value)
      return
    }
    const index = this.#indexOf(stream)
    const slot = this.#slots[index]
    if (slot && slot.stream !== stream) return this.#setElsewhere(stream, value)
    if (!slot) this.#inSlots += 1
    this.#slots[index] = { stream, value }
  }

  delete(stream: number): void {
    const index = this.#indexOf(stream)
    if (this.#slots[index]?.stream === stream) {
      this.#slots[index] = undefined
      this.#inSlots -= 1
    } else if (this.#others.size > 0) this.#others.delete(stream)
  }

  clear(): void {
    this.#slots = emptySlots(FIRST_CAPACITY)
    this.#others.clear()
    this.#inSlots = 0
  }

  /** Returns the number and value of every stream; the caller may delete entries while it iterates. */
  entries(): [number, T][] {
    const inSlots = this.#slots.flatMap((slot): [number, T][] => (slot ? [[slot.stream, slot.value]] : []))
    return [...inSlots, ...this.#others]
  }

  #setElsewhere(stream: number, value: T): void {
    if (this.#inSlots <= this.#slots.length / 2) {
      this.#others.set(stream, value)
      return
    }
    const entries = this.entries()
    const capacity = 2 * this.#slots.length
    this.clear()
    this.#slots = emptySlots(capacity)
    for (const [known, one] of entries) this.set(known, one)
    this.set(stream, value)
  }

  /** Returns the slot of a stream; the capacity is a power of two. */
  #indexOf(stream: number): number {
    return stream & (this.#slots.length - 1)
  }
}
