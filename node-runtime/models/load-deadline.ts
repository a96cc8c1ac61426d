import { bytesTaken } from '../processes/process-usage.ts'

const POLL_INTERVAL_MS = 1_000
/** The minimum change between two checks that counts as progress. */
const STEP_BYTES = 1024 * 1024
/**
 * A load that only prints lines is aborted after this multiple of `stallMs`, because a server may repeat an error
 * endlessly.
 */
const WORDS_STALLS = 10

export interface LoadDeadlineOptions {
  /** A load without any progress is aborted after this time. */
  stallMs: number
  /** Called with the number of bytes that the server has read so far, or has in memory. */
  onTaken?: (bytes: number) => void
}

/**
 * Aborts a load that stalls: no output, no reads and no memory growth for `stallMs`. A load that makes progress has no
 * time limit, because a big model may be on a slow disk.
 */
export class LoadDeadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #stallMs: number
  #takenAt = performance.now()
  #progressAt = performance.now()
  #progress = 0
  readonly #onTaken: (bytes: number) => void
  #timer: NodeJS.Timeout | undefined

  constructor({ stallMs, onTaken = () => {} }: LoadDeadlineOptions) {
    this.#stallMs = stallMs
    this.#onTaken = onTaken
  }

  /** Aborts with an error that explains the reason. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Starts checking a server whose process ids `pidsOf` returns. */
  watch(pidsOf: () => Promise<readonly number[]>): void {
    this.#timer = setInterval(() => void this.#look(pidsOf), Math.min(POLL_INTERVAL_MS, this.#stallMs / 4))
    this.#timer.unref()
  }

  /** Records that the server has printed a line. */
  heard(): void {
    this.#progressAt = performance.now()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #look(pidsOf: () => Promise<readonly number[]>): Promise<void> {
    const { read, held } = await bytesTaken(await pidsOf().catch(() => []))
    // Weights are read into memory or mapped there, so one of the two numbers ends up near their size.
    this.#onTaken(Math.max(read, held))
    const progress = read + held
    const now = performance.now()
    if (progress >= this.#progress + STEP_BYTES) {
      this.#progress = progress
      this.#takenAt = this.#progressAt = now
    }
    const wordsMs = WORDS_STALLS * this.#stallMs
    if (now - this.#progressAt > this.#stallMs) {
      this.#controller.abort(new Error(`it made no progress for ${seconds(this.#stallMs)} s`))
    } else if (now - this.#takenAt > wordsMs) {
      this.#controller.abort(new Error(`it printed lines but loaded nothing for ${seconds(wordsMs)} s`))
    }
  }
}

const seconds = (ms: number) => Math.round(ms / 100) / 10
