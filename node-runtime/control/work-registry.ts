/** Work that is registered until it is disposed of. */
export interface RegisteredWork extends Disposable {
  /** Aborts when the link or Temporal cancels the work. */
  readonly signal: AbortSignal
  /** Aborts when the work is to stop where it can go on later. */
  readonly pausing: AbortSignal
}

interface Controls {
  readonly cancel: AbortController
  readonly pause: AbortController
}

/** The jobs and tasks that run on this node, so that a `cancel` frame reaches them before Temporal does. */
export class WorkRegistry {
  readonly #work = new Map<string, Set<Controls>>()

  /** The number of running jobs and tasks. */
  get size(): number {
    return this.#work.size
  }

  /** Registers work under its job or task id, until it has ended; `signal` is Temporal's. */
  begin(id: string, signal?: AbortSignal): RegisteredWork {
    const controls = { cancel: new AbortController(), pause: new AbortController() }
    const set = this.#work.get(id) ?? new Set()
    this.#work.set(id, set.add(controls))
    return {
      signal: signal ? AbortSignal.any([signal, controls.cancel.signal]) : controls.cancel.signal,
      pausing: controls.pause.signal,
      [Symbol.dispose]: () => {
        set.delete(controls)
        if (set.size === 0) this.#work.delete(id)
      },
    }
  }

  /** Cancels the work of an id; false when there is none. */
  cancel(id: string): boolean {
    const set = this.#work.get(id)
    for (const { cancel } of set ?? []) cancel.abort(new Error('cancelled over the link'))
    return set !== undefined
  }

  /** Stops the work of an id where it can go on later. */
  pause(id: string): void {
    for (const { pause } of this.#work.get(id) ?? []) pause.abort(new Error('paused over the link'))
  }
}
