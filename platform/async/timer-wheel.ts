export interface WheelTimer {
  readonly tick: number
  readonly expire: () => void
  /** The position in the list of its tick; -1 once the timer is cancelled. */
  index: number
}

/**
 * Drives many coarse timers from one interval, for deadlines that are almost always cancelled. We use arrays, because
 * sets and maps with a high turnover burden the garbage collector (see `StreamTable`).
 */
export class TimerWheel implements Disposable {
  readonly #tickMs: number
  readonly #slots = new Map<number, WheelTimer[]>()
  #next = 0
  /** The latest tick with a timer. Its list is kept for the next timer, even when it is empty. */
  #latest = 0
  #interval: NodeJS.Timeout | undefined

  constructor(tickMs = 100) {
    this.#tickMs = tickMs
  }

  /** Calls `expire` after `ms`: never earlier, and at most two ticks late. */
  add(ms: number, expire: () => void): WheelTimer {
    if (!this.#interval) {
      this.#next = Math.floor(this.#now())
      this.#interval = setInterval(() => this.#advance(), this.#tickMs)
      this.#interval.unref()
    }
    const tick = Math.max(this.#next, Math.ceil(this.#now() + ms / this.#tickMs))
    const slot = this.#slotOf(tick)
    const timer = { tick, expire, index: slot.length }
    slot.push(timer)
    return timer
  }

  cancel(timer: WheelTimer): void {
    const { index } = timer
    timer.index = -1
    const slot = this.#slots.get(timer.tick)
    if (slot?.[index] !== timer) return
    const last = slot.pop()
    if (last && last !== timer) {
      slot[index] = last
      last.index = index
    }
    if (slot.length === 0 && timer.tick !== this.#latest) this.#slots.delete(timer.tick)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#interval)
    this.#interval = undefined
    this.#slots.clear()
  }

  #slotOf(tick: number): WheelTimer[] {
    let slot = this.#slots.get(tick)
    if (!slot) this.#slots.set(tick, (slot = []))
    if (tick !== this.#latest) {
      if (this.#slots.get(this.#latest)?.length === 0) this.#slots.delete(this.#latest)
      this.#latest = tick
    }
    return slot
  }

  /** The current time in ticks, with fractions. */
  #now(): number {
    return performance.now() / this.#tickMs
  }

  #advance(): void {
    const now = this.#now()
    for (; this.#next <= now; this.#next++) {
      const slot = this.#slots.get(this.#next)
      if (!slot) continue
      this.#slots.delete(this.#next)
      for (const timer of slot) if (timer.index !== -1) timer.expire()
    }
    if (this.#slots.size === 0) this[Symbol.dispose]()
  }
}
