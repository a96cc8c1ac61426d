/**
 * Models that are always loaded on this node and never evicted: those of its configuration, and those
 * that the platform assigned.
 */
export class Pins {
  readonly #own: ReadonlySet<string>
  #assigned: ReadonlySet<string> = new Set()

  constructor(own: Iterable<string> = []) {
    this.#own = new Set(own)
  }

  get keys(): readonly string[] {
    return [...new Set([...this.#own, ...this.#assigned])]
  }

  has(modelKey: string): boolean {
    return this.#own.has(modelKey) || this.#assigned.has(modelKey)
  }

  /** Replaces the models that the platform assigned. */
  setAssigned(modelKeys: readonly string[]): void {
    this.#assigned = new Set(modelKeys)
  }
}
