/**
 * Models that are always loaded on this node and never evicted: those in its configuration and those that the platform
 * assigned. Also stores how long the others stay loaded without a request.
 */
export class Pins {
  readonly #own: ReadonlySet<string>
  readonly #defaultIdleMs: number | undefined
  #assigned: ReadonlySet<string> = new Set()
  #retiring: ReadonlySet<string> = new Set()
  #idleTimeouts: Readonly<Record<string, number>> = {}

  /** @param idleUnloadS The idle timeout in seconds for models without their own; 0 disables unloading. */
  constructor(own: Iterable<string> = [], idleUnloadS = 0) {
    this.#own = new Set(own)
    this.#defaultIdleMs = inMs(idleUnloadS)
  }

  get keys(): readonly string[] {
    return [...new Set([...this.#own, ...this.#assigned])]
  }

  has(modelKey: string): boolean {
    return this.#own.has(modelKey) || this.#assigned.has(modelKey)
  }

  /** Returns whether the platform wants a model unloaded once no request uses it. */
  isRetiring(modelKey: string): boolean {
    return this.#retiring.has(modelKey) && !this.has(modelKey)
  }

  /** Returns a model's idle timeout in milliseconds; undefined if it stays loaded. */
  idleMs(modelKey: string): number | undefined {
    if (this.isRetiring(modelKey)) return 0
    const ownTimeout = this.#idleTimeouts[modelKey]
    return ownTimeout === undefined ? this.#defaultIdleMs : inMs(ownTimeout)
  }

  /** Replaces the models that the platform assigned. */
  setAssigned(modelKeys: readonly string[]): void {
    this.#assigned = new Set(modelKeys)
  }

  /** Replaces the models that the platform wants unloaded. */
  setRetiring(modelKeys: readonly string[]): void {
    this.#retiring = new Set(modelKeys)
  }

  /** Replaces the idle timeouts of models, in seconds. */
  setIdleTimeouts(seconds: Readonly<Record<string, number>>): void {
    this.#idleTimeouts = seconds
  }
}

const inMs = (seconds: number): number | undefined => (seconds > 0 ? seconds * 1_000 : undefined)
