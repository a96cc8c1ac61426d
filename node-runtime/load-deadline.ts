import { bytesTaken } from './process-table.ts'

const LOOK_MS = 1_000
/** Less than this between two looks is no progress. */
const STEP_BYTES = 1024 * 1024
/** A load that makes progress may take so many times the silence that ends it, and longer the more it has to read. */
const LONGEST_STALLS = 10
const SLOWEST_BYTES_PER_S = 5 * 1024 * 1024

export interface LoadDeadlineOptions {
  /** A load that does nothing for so long is given up. */
  stallMs: number
  /** Of the weights. */
  bytes: number
  /** Hears how many bytes the server has read, or holds in memory, so far. */
  onTaken?: (bytes: number) => void
}

/**
 * Ends a load that stands still: nothing said, nothing read, no memory taken for `stallMs`. A big model on a slow
 * disk may take as long as it needs, up to a ceiling that grows with its size.
 */
export class LoadDeadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #stallMs: number
  readonly #startedAt = performance.now()
  readonly #ceilingMs: number
  #progressAt = performance.now()
  #progress = 0
  readonly #onTaken: (bytes: number) => void
  #timer: NodeJS.Timeout | undefined

  constructor({ stallMs, bytes, onTaken = () => {} }: LoadDeadlineOptions) {
    this.#stallMs = stallMs
    this.#onTaken = onTaken
    this.#ceilingMs = stallMs * LONGEST_STALLS + (bytes / SLOWEST_BYTES_PER_S) * 1000
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
    if (progress >= this.#progress + STEP_BYTES) {
      this.#progress = progress
      this.heard()
    }
    const now = performance.now()
    if (now - this.#progressAt > this.#stallMs) {
      this.#controller.abort(new Error(`it made no progress for ${seconds(this.#stallMs)} s`))
    } else if (now - this.#startedAt > this.#ceilingMs) {
      this.#controller.abort(new Error(`it was not ready within ${seconds(this.#ceilingMs)} s`))
    }
  }
}

const seconds = (ms: number) => Math.round(ms / 100) / 10
