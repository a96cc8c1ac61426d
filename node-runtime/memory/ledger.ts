/**
 * Who holds how much of this node's memory: on a GPU node of each GPU by itself, for what one of them lacks no other can
 * give; elsewhere of one pool. A reservation is given up only by whoever knows that its processes are gone.
 */
export class MemoryLedger {
  readonly totalMb: number
  /** The memory of each GPU; none where RAM is counted. */
  readonly gpus: readonly number[]
  readonly #pools: readonly number[]
  /** By holder, what it has of each pool. */
  readonly #held = new Map<string, ReadonlyMap<number, number>>()

  constructor(totalMb: number, gpus: readonly number[] = []) {
    this.gpus = gpus
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

  /** The GPUs, by their number, on which a holder has its room. */
  gpusOf(holder: string): number[] {
    return this.gpus.length > 0 ? [...(this.#held.get(holder)?.keys() ?? [])] : []
  }

  /** Sets what a holder has, be it an estimate or what was measured, in equal parts; where it is unless told. */
  hold(holder: string, mb: number, pools: readonly number[] = this.#poolsOf(holder)): void {
    this.#held.set(holder, new Map(pools.map((pool) => [pool, mb / pools.length])))
  }

  release(holder: string): void {
    this.#held.delete(holder)
  }

  #poolsOf(holder: string): readonly number[] {
    return [...(this.#held.get(holder)?.keys() ?? [0])]
  }
}
