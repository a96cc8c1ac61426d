/**
 * Notifies everyone involved in a piece of work that it is cancelled. Every warm request needs one, and an
 * `AbortController` with its signal would cost each request a kilobyte and a microsecond.
 */
export class Cancellation {
  readonly #listeners: (() => void)[] = []
  #aborted = false

  get aborted(): boolean {
    return this.#aborted
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Calls the listeners; safe to repeat. */
  abort(): void {
    if (this.#aborted) return
    this.#aborted = true
    for (const listener of this.#listeners) listener()
  }
}
