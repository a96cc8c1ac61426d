/** Who holds how much of this node's memory. A reservation is given up only by whoever knows that its processes are gone. */
export class MemoryLedger {
  readonly totalMb: number
  readonly #held = new Map<string, number>()

  constructor(totalMb: number) {
    this.totalMb = totalMb
  }

  get freeMb(): number {
    let free = this.totalMb
    for (const mb of this.#held.values()) free -= mb
    return Math.max(0, free)
  }

  heldBy(holder: string): number {
    return this.#held.get(holder) ?? 0
  }

  /** Sets what a holder has, be it an estimate or what was measured. */
  hold(holder: string, mb: number): void {
    this.#held.set(holder, mb)
  }

  release(holder: string): void {
    this.#held.delete(holder)
  }
}
