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
    const free = [...this.#pools]
    for (const held of this.#held.values()) for (const [pool, mb] of held) free[pool] = (free[pool] ?? 0) - mb
    return free.map((mb) => Math.max(0, mb))
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

  release(holder: string): void {
    this.#held.delete(holder)
  }

  #poolsOf(holder: string): readonly number[] {
    return [...(this.#held.get(holder)?.keys() ?? [0])]
  }
}
