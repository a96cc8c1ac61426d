/** Tracks whether this node is draining or stopping; trainers listen to its signal. */
export class DrainController {
  #controller = new AbortController()
  #draining = false

  get isDraining(): boolean {
    return this.#draining
  }

  /** Aborts once the node drains or stops; replaced when the node accepts work again. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Starts or ends draining; returns false if nothing changes. */
  drain(draining: boolean): boolean {
    if (draining === this.#draining) return false
    this.#draining = draining
    if (draining) this.#controller.abort(new Error('this node is draining'))
    else this.#controller = new AbortController()
    return true
  }

  stop(): void {
    this.#draining = true
    this.#controller.abort(new Error('this node is stopping'))
  }
}
