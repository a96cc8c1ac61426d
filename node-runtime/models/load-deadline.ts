import { bytesTaken } from '../processes/process-table.ts'

const LOOK_MS = 1_000
/** Less than this between two looks is no progress. */
const STEP_BYTES = 1024 * 1024
/** Words alone carry a load for so many times the silence that ends it: a server may repeat its complaint for ever. */
const WORDS_STALLS = 10

export interface LoadDeadlineOptions {
  /** A load that does nothing for so long is given up. */
  stallMs: number
  /** Hears how many bytes the server has read, or holds in memory, so far. */
  onTaken?: (bytes: number) => void
}

/**
 * Ends a load that stands still: nothing said, nothing read, no memory taken for `stallMs`. A big model on a slow
 * disk may take as long as it needs.
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

  /** Aborts with the reason in words. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Begins to look at a server whose process ids `pidsOf` tells. */
  watch(pidsOf: () => Promise<readonly number[]>): void {
    this.#timer = setInterval(() => void this.#look(pidsOf), Math.min(LOOK_MS, this.#stallMs / 4))
    this.#timer.unref()
  }

  /** The server has said something. */
  heard(): void {
    this.#progressAt = performance.now()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #look(pidsOf: () => Promise<readonly number[]>): Promise<void> {
    const { read, held } = await bytesTaken(await pidsOf().catch(() => []))
    // Weights are read into memory or mapped there: one of the two is near their size at the end.
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
      this.#controller.abort(new Error(`it has said much and loaded nothing for ${seconds(wordsMs)} s`))
    }
  }
}

const seconds = (ms: number) => Math.round(ms / 100) / 10
