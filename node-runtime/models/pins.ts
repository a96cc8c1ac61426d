/** Models that this node keeps loaded and never evicts for others: those of its configuration, and those it is told. */
export class Pins {
  readonly #own: ReadonlySet<string>
  #told: ReadonlySet<string> = new Set()

  constructor(own: Iterable<string> = []) {
    this.#own = new Set(own)
  }

  get keys(): readonly string[] {
    return [...new Set([...this.#own, ...this.#told])]
  }

  has(modelKey: string): boolean {
    return this.#own.has(modelKey) || this.#told.has(modelKey)
  }

  /** Takes what the platform wants kept here in place of what it wanted before. */
  tell(modelKeys: readonly string[]): void {
    this.#told = new Set(modelKeys)
  }
}
