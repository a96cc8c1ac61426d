import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { PayloadStore } from './payload-store.ts'
import type { PayloadWriter } from './payload-writer.ts'
import type { Payload } from './payload.ts'

/** A file that can be read from its start while it is still growing. */
export interface FrameSource {
  readonly path: string
  /** Resolves once the file has more than `bytes` bytes or is complete. */
  grown(bytes: number, signal: AbortSignal): Promise<{ bytes: number; isWhole: boolean }>
}

/** Returns a complete payload as a source. */
export const wholeSource = ({ path, sizeBytes }: Payload): FrameSource => ({
  path,
  grown: () => Promise.resolve({ bytes: sizeBytes, isWhole: true }),
})

/** A payload that can be read while it is being produced. Disposing it before it is complete removes it. */
export class GrowingPayload implements FrameSource, AsyncDisposable {
  readonly #writer: PayloadWriter
  #change = Promise.withResolvers<void>()
  #bytes = 0
  #isWhole = false
  #isOver = false

  static async begin(store: PayloadStore, limits: { maxBytes?: number } = {}): Promise<GrowingPayload> {
    return new GrowingPayload(await store.write(limits))
  }

  private constructor(writer: PayloadWriter) {
    this.#writer = writer
  }

  get path(): string {
    return this.#writer.path
  }

  /** Reserves room for the whole payload. */
  expect(sizeBytes: number): Promise<void> {
    return this.#writer.expect(sizeBytes)
  }

  /** Appends bytes, which become visible to readers at once. */
  async append(bytes: Uint8Array): Promise<void> {
    await this.#writer.write(bytes)
    await this.#writer.flush()
    this.#bytes = this.#writer.bytes
    this.#changed()
  }

  /** Completes the payload. */
  async finish(): Promise<Payload> {
    const payload = await this.#writer.finish()
    this.#isWhole = true
    this.#changed()
    return payload
  }

  async grown(bytes: number, signal: AbortSignal): Promise<{ bytes: number; isWhole: boolean }> {
    while (this.#bytes <= bytes && !this.#isWhole) {
      if (this.#isOver) throw new EdgeError('payload_gone', 'the payload was not completed')
      await unlessAborted(this.#change.promise, signal)
    }
    return { bytes: this.#bytes, isWhole: this.#isWhole }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    this.#changed()
    await this.#writer[Symbol.asyncDispose]()
  }

  #changed(): void {
    this.#change.resolve()
    this.#change = Promise.withResolvers<void>()
  }
}
