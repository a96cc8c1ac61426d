export interface BackgroundLoopOptions {
  /** Milliseconds between the end of one run and the begin of the next. */
  everyMs: number
  /** Hears what a run throws; the loop goes on. */
  onError: (err: unknown) => void
}

/** Runs some work again and again until disposed, never twice at a time. */
export class BackgroundLoop implements AsyncDisposable {
  readonly #work: () => Promise<unknown>
  readonly #options: BackgroundLoopOptions
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isPoked = false
  #isClosed = false

  constructor(work: () => Promise<unknown>, options: BackgroundLoopOptions) {
    this.#work = work
    this.#options = options
  }

  /** Begins with a pause; `run` begins with a run. */
  start(): this {
    if (!this.#running && !this.#isClosed) this.#pause()
    return this
  }

  /** Runs now, and once more when a run is under way; resolves when that is over. Never throws. */
  run(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    this.#isPoked = true
    this.#running ??= this.#runs()
    return this.#running
  }

  /** Waits for the run that is under way, if any. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#running
  }

  async #runs(): Promise<void> {
    clearTimeout(this.#timer)
    while (this.#isPoked && !this.#isClosed) {
      this.#isPoked = false
      try {
        await this.#work()
      } catch (err) {
        this.#options.onError(err)
      }
    }
    // Not a turn later: whoever asks for a run in between would be given this one, which is over.
    this.#running = undefined
    if (!this.#isClosed) this.#pause()
  }

  #pause(): void {
    this.#timer = setTimeout(() => void this.run(), this.#options.everyMs)
  }
}
