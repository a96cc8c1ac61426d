/** Work that is registered until it is disposed of. */
export interface RegisteredWork extends Disposable {
  /** Aborts when the link or Temporal cancels the work. */
  readonly signal: AbortSignal
  /** Aborts when the work must stop at a point from which it can resume. */
  readonly pausing: AbortSignal
  /** Records the attempt of the claim, so that a late cancellation of an earlier attempt does not end this work. */
  claimed(attempt: number): void
}

interface Controls {
  readonly cancel: AbortController
  readonly pause: AbortController
  /** The attempt of the claim; undefined before the claim, and for work that is cancelled regardless of its attempt. */
  attempt?: number
  /** The last attempt that was cancelled before the work was claimed. */
  cancelledUpTo: number
}

const cancel = (controls: Controls) => controls.cancel.abort(new Error('cancelled over the link'))

/** The jobs and tasks that run on this node, so that a `cancel` frame reaches them before Temporal does. */
export class WorkRegistry {
  readonly #work = new Map<string, Set<Controls>>()

  /** The number of running jobs and tasks. */
  get size(): number {
    return this.#work.size
  }

  /** Registers work under its job or task id until it has ended. `signal` is Temporal's. */
  begin(id: string, signal?: AbortSignal): RegisteredWork {
    const controls: Controls = {
      cancel: new AbortController(),
      pause: new AbortController(),
      cancelledUpTo: 0,
    }
    const set = this.#work.get(id) ?? new Set()
    this.#work.set(id, set.add(controls))
    return {
      signal: signal ? AbortSignal.any([signal, controls.cancel.signal]) : controls.cancel.signal,
      pausing: controls.pause.signal,
      claimed(attempt) {
        controls.attempt = attempt
        if (attempt <= controls.cancelledUpTo) cancel(controls)
      },
      [Symbol.dispose]: () => {
        set.delete(controls)
        if (set.size === 0) this.#work.delete(id)
      },
    }
  }

  /** Cancels the work with this id, optionally only up to an attempt. */
  cancel(id: string, upTo = Infinity): void {
    for (const controls of this.#work.get(id) ?? []) {
      if ((controls.attempt ?? Infinity) <= upTo) cancel(controls)
      else controls.cancelledUpTo = Math.max(controls.cancelledUpTo, upTo)
    }
  }

  /** Stops the work with this id at a point from which it can resume. */
  pause(id: string): void {
    for (const { pause } of this.#work.get(id) ?? []) pause.abort(new Error('paused over the link'))
  }
}
