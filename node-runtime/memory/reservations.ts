/**
 * The reservations of this node's memory. A GPU node has one pool per GPU, because one GPU's memory cannot serve
 * another; any other node has one pool. Only a caller that knows that the holder's processes have exited may release a
 * reservation.
 */
export class MemoryReservations {
  readonly totalMb: number
  /** The memory of each GPU in MB; empty where RAM is counted. */
  readonly gpus: readonly number[]
  readonly #devices: readonly string[]
  readonly #pools: readonly number[]
  /** By holder, the MB reserved in each pool. */
  readonly #held = new Map<string, ReadonlyMap<number, number>>()

  /** @param devices The CUDA_VISIBLE_DEVICES name of each GPU; by default its position. */
  constructor(totalMb: number, gpus: readonly number[] = [], devices = gpus.map((_, gpu) => String(gpu))) {
    this.gpus = gpus
    this.#devices = devices
    this.#pools = gpus.length > 0 ? gpus : [totalMb]
    this.totalMb = this.#pools.reduce((sum, mb) => sum + mb, 0)
  }

  get freeMb(): number {
    return this.freeByPool.reduce((sum, mb) => sum + mb, 0)
  }

  get freeByPool(): number[] {
    return this.#remaining().map((mb) => Math.max(0, mb))
  }

  /** Returns the free memory of each pool, counting the holder's own reservation as free. */
  freeFor(holder: string): number[] {
    return this.#remaining(holder).map((mb) => Math.max(0, mb))
  }

  /** Returns whether more memory is reserved in a pool than it has. */
  isOverfull(pool: number): boolean {
    return (this.#remaining()[pool] ?? 0) < 0
  }

  heldBy(holder: string): number {
    return this.heldByPool(holder).reduce((sum, mb) => sum + mb, 0)
  }

  heldByPool(holder: string): number[] {
    const held = this.#held.get(holder)
    return this.#pools.map((_, pool) => held?.get(pool) ?? 0)
  }

  /** Returns the CUDA_VISIBLE_DEVICES names of the GPUs on which a holder has memory. */
  devicesOf(holder: string): string[] {
    return this.gpusOf(holder).map((gpu) => this.#devices[gpu] ?? String(gpu))
  }

  /** Returns the positions in `gpus` of the GPUs on which a holder has memory; none if it reserved 0 MB. */
  gpusOf(holder: string): number[] {
    const held = [...(this.#held.get(holder) ?? [])]
    return this.gpus.length > 0 ? held.flatMap(([pool, mb]) => (mb > 0 ? [pool] : [])) : []
  }

  /**
   * Sets the reservation of a holder, an estimate or an observed peak, in equal parts over the pools; without
   * `pools` it stays where it is.
   */
  reserve(holder: string, mb: number, pools: readonly number[] = this.#poolsOf(holder)): void {
    this.#held.set(holder, new Map(pools.map((pool) => [pool, mb / pools.length])))
  }

  /** Returns a function that restores a holder's present reservation, or the lack of one. */
  savepoint(holder: string): () => void {
    const held = this.#held.get(holder)
    return () => {
      if (held) this.#held.set(holder, held)
      else this.#held.delete(holder)
    }
  }

  release(holder: string): void {
    this.#held.delete(holder)
  }

  /** Returns the memory of each pool without the reservations in it; negative if they exceed the pool. */
  #remaining(except?: string): number[] {
    const remaining = [...this.#pools]
    for (const [holder, held] of this.#held)
      if (holder !== except) for (const [pool, mb] of held) remaining[pool] = (remaining[pool] ?? 0) - mb
    return remaining
  }

  #poolsOf(holder: string): readonly number[] {
    return [...(this.#held.get(holder)?.keys() ?? [0])]
  }
}
