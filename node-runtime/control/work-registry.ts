/** The jobs and tasks that run on this node, so that a `cancel` frame reaches them before Temporal does. */
export class WorkRegistry {
  readonly #work = new Map<string, Set<AbortController>>()

  /** The number of running jobs and tasks. */
  get size(): number {
    return this.#work.size
  }

  /**
   * Registers work under its job or task id. The signal aborts when the link or `signal` (Temporal's) cancels the work;
   * dispose when it has ended.
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

  /** Cancels the work of an id; false when there is none. */
  cancel(id: string): boolean {
    const set = this.#work.get(id)
    for (const controller of set ?? []) controller.abort(new Error('cancelled over the link'))
    return set !== undefined
  }
}
