import { AsyncLocalStorage } from 'node:async_hooks'

export interface BackgroundLoopOptions {
  /** Milliseconds between the end of one run and the start of the next. */
  everyMs: number
  /** Called with the error of a run; the loop continues. */
  onError: (err: unknown) => void
}

/**
 * Repeats work until disposed, with one run at a time. The work runs in the constructor's async context: a request that
 * triggers a run must not lend its own context, such as its account, to work that serves every account.
 */
export class BackgroundLoop implements AsyncDisposable {
  readonly #work: () => Promise<unknown>
  readonly #options: BackgroundLoopOptions
  readonly #inOwnContext = AsyncLocalStorage.snapshot()
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isPoked = false
  #isClosed = false

  constructor(work: () => Promise<unknown>, options: BackgroundLoopOptions) {
    this.#work = work
    this.#options = options
  }

  /** Starts the loop with a pause; `run` starts it with a run. */
  start(): this {
    if (!this.#running && !this.#isClosed) this.#inOwnContext(() => this.#pause())
    return this
  }

  /** Runs now, or once more after the run in progress; resolves when that run has ended. Never throws. */
  run(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    this.#isPoked = true
    this.#running ??= this.#inOwnContext(() => this.#runs())
    return this.#running
  }

  /** Waits for the run in progress, if any. */
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
    // Don't defer this by a turn: a caller of `run` in between would get the run that has just ended.
    this.#running = undefined
    if (!this.#isClosed) this.#pause()
  }

  #pause(): void {
    this.#timer = setTimeout(() => void this.run(), this.#options.everyMs)
  }
}
