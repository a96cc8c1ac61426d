/** Jobs and tasks at work on this node, so that a `cancel` frame finds them before Temporal does. */
export class WorkRegistry {
  readonly #work = new Map<string, Set<AbortController>>()

  /** Jobs and tasks now at work. */
  get size(): number {
    return this.#work.size
  }

  /**
   * Registers work under its job or task id. The signal fires when the link or
   * `signal` (Temporal's) cancels it; dispose when the work has ended.
   */
  begin(id: string, signal?: AbortSignal): Disposable & { readonly signal: AbortSignal } {
    const controller = new AbortController()
    const set = this.#work.get(id) ?? new Set()
    this.#work.set(id, set.add(controller))
    return {
      signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
      [Symbol.dispose]: () => {
        set.delete(controller)
        if (set.size === 0) this.#work.delete(id)
      },
    }
  }

  /** Cancels what runs under an id; false when nothing does. */
  cancel(id: string): boolean {
    const set = this.#work.get(id)
    for (const controller of set ?? []) controller.abort(new Error('cancelled over the link'))
    return set !== undefined
  }
}
