import type { Dispatcher } from 'undici'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { contentRangeOf } from './byte-range.ts'
import type { PayloadWriter } from './payload-writer.ts'

type Controller = Dispatcher.DispatchController
type Headers = Record<string, string | string[] | undefined>

/** The properties of a payload that are known before its bytes arrive. */
export interface ExpectedPayload {
  sizeBytes?: number | undefined
  sha256?: string | undefined
}

/** Statuses that a retry would get again, or that rule out resuming the partial payload. */
const STATUS_FAILURE = new Map<number, EdgeError['failure']>([
  [401, 'refused'],
  [403, 'expired'],
  [404, 'refused'],
  [416, 'size_mismatch'],
])

/**
 * Writes one response, with a whole payload or the rest of one, to a writer. Pauses the connection while the disk is
 * busy. `done` resolves when the response is complete, and rejects with an `EdgeError` if a retry can't help.
 */
export class Reception implements Dispatcher.DispatchHandler {
  readonly #writer: PayloadWriter
  readonly #expected: ExpectedPayload
  readonly #done = Promise.withResolvers<void>()
  readonly #onSign: () => void
  #controller: Controller | undefined
  #fault: Error | undefined
  /** The number of bytes to skip in a whole response, because the writer already has them. */
  #skip = 0
  #total = 0
  #isOver = false

  constructor(writer: PayloadWriter, expected: ExpectedPayload, onSign: () => void) {
    this.#writer = writer
    this.#expected = expected
    this.#onSign = onSign
  }

  get done(): Promise<void> {
    return this.#done.promise
  }

  /** Ends the reception. Closes the connection at once, or as soon as it exists. */
  abandon(why: Error): void {
    this.#isOver = true
    this.#fault = why
    this.#controller?.abort(why)
    this.#done.reject(why)
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller
    if (this.#fault) controller.abort(this.#fault)
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    this.#onSign()
    // A 102 means that the producer is still working.
    if (status < 200) return
    try {
      this.#total = this.#begin(status, headers)
    } catch (err) {
      return this.abandon(err as Error)
    }
    this.#await(controller, this.#writer.expect(this.#total))
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#isOver) return
    this.#onSign()
    const fresh = this.#skip > 0 ? chunk.subarray(Math.min(this.#skip, chunk.length)) : chunk
    this.#skip -= chunk.length - fresh.length
    if (fresh.length === 0) return
    try {
      if (!this.#writer.push(fresh)) this.#await(controller, this.#writer.ready())
    } catch (err) {
      this.abandon(err as Error)
    }
  }

  onResponseEnd(): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#writer.bytes === this.#total) this.#done.resolve()
    else this.#done.reject(new Error('the response ended early'))
  }

  onResponseError(_controller: Controller | undefined, err: Error): void {
    this.#isOver = true
    this.#done.reject(err)
  }

  /** Validates the response header and returns the size of the whole payload. */
  #begin(status: number, headers: Headers): number {
    const have = this.#writer.bytes
    if (status !== 200 && status !== 206) {
      const failure = STATUS_FAILURE.get(status) ?? (status < 500 ? 'refused' : undefined)
      const message = `the peer returned status ${status}`
      throw failure ? new EdgeError(failure, message) : new Error(message)
    }
    const range = status === 206 ? contentRangeOf(textOf(headers, 'content-range')) : undefined
    if (status === 206 && range?.start !== have)
      throw new EdgeError('refused', 'the response has a different range than requested')
    this.#skip = status === 200 ? have : 0
    const size = range?.size ?? Number(textOf(headers, 'content-length') ?? Number.NaN)
    const { sizeBytes = size, sha256 } = this.#expected
    if (!Number.isSafeInteger(size) || size !== sizeBytes)
      throw new EdgeError('size_mismatch', `the payload has ${size} bytes, not ${sizeBytes}`)
    this.#expected.sizeBytes = size
    const [, shown] = /^"([0-9a-f]{64})"$/.exec(textOf(headers, 'etag') ?? '') ?? []
    if (shown !== undefined && sha256 !== undefined && shown !== sha256)
      throw new EdgeError('digest_mismatch', 'the payload is announced with a different digest')
    this.#expected.sha256 = sha256 ?? shown
    return size
  }

  #await(controller: Controller, work: Promise<void>): void {
    controller.pause()
    work.then(
      () => controller.resume(),
      (err: unknown) => this.abandon(err as Error),
    )
  }
}

function textOf(headers: Headers, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}
