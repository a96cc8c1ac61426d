export interface WheelTimer {
  readonly tick: number
  readonly expire: () => void
}

/** Many coarse timers behind one interval: for deadlines that almost always are cancelled before they are due. */
export class TimerWheel implements Disposable {
  readonly #tickMs: number
  readonly #slots = new Map<number, Set<WheelTimer>>()
  #next = 0
  #interval: NodeJS.Timeout | undefined

  constructor(tickMs = 100) {
    this.#tickMs = tickMs
  }

  /** Calls `expire` once `ms` are over, never sooner and at most two ticks later. */
  add(ms: number, expire: () => void): WheelTimer {
    if (!this.#interval) {
      this.#next = Math.floor(this.#now())
      this.#interval = setInterval(() => this.#advance(), this.#tickMs)
      this.#interval.unref()
    }
    const timer = { tick: Math.max(this.#next, Math.ceil(this.#now() + ms / this.#tickMs)), expire }
    const slot = this.#slots.get(timer.tick)
    if (slot) slot.add(timer)
    else this.#slots.set(timer.tick, new Set([timer]))
    return timer
  }

  cancel(timer: WheelTimer): void {
    const slot = this.#slots.get(timer.tick)
    if (slot?.delete(timer) && slot.size === 0) this.#slots.delete(timer.tick)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#interval)
    this.#interval = undefined
    this.#slots.clear()
  }

  /** In ticks and parts of one. */
  #now(): number {
    return performance.now() / this.#tickMs
  }

  #advance(): void {
    const now = this.#now()
    for (; this.#next <= now; this.#next++) {
      const slot = this.#slots.get(this.#next)
      if (!slot) continue
      this.#slots.delete(this.#next)
      for (const { expire } of slot) expire()
    }
    if (this.#slots.size === 0) this[Symbol.dispose]()
  }
}
