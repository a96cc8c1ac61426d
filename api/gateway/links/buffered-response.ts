import { ApiError } from '../../../domain/errors.ts'
import { type ResponseHead, LinkError, type LinkStream, type LinkHandlers } from './link-request.ts'
import { ResponseBuffer, type ResponseMemory, type MemoryReservation } from './response-memory.ts'

/** A complete response from a model server. */
export interface NodeResponse {
  head: ResponseHead
  body: Buffer
  /** The memory reserved for the body; release it once the body has been sent. */
  room: MemoryReservation
}

const NO_HEAD: ResponseHead = { status: 0, contentType: '', tokens: undefined }

/** Assembles a complete response; `answer` rejects with a `LinkError`, or with `no_capacity` if memory is short. */
export class BufferedResponse implements LinkHandlers {
  readonly answer: Promise<NodeResponse>
  readonly #resolve: (answer: NodeResponse) => void
  readonly #reject: (error: Error) => void
  readonly #stream: LinkStream
  readonly #room: MemoryReservation
  #head = NO_HEAD
  /** The only piece of a short response. */
  #first: Buffer | undefined
  #body: ResponseBuffer | undefined

  /** @param request starts the request; it calls no handler before it returns. */
  constructor(memory: ResponseMemory, accountId: string, request: (handlers: LinkHandlers) => LinkStream) {
    const { promise, resolve, reject } = Promise.withResolvers<NodeResponse>()
    this.answer = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#room = memory.room(accountId)
    this.#stream = request(this)
  }

  onHead(head: ResponseHead): void {
    this.#head = head
  }

  onChunk(chunk: Buffer): void {
    if (!this.#body && !this.#first) {
      this.#first = chunk
      return
    }
    try {
      this.#body ??= new ResponseBuffer(this.#room)
      if (this.#first) this.#body.append(this.#first)
      this.#first = undefined
      this.#body.append(chunk)
    } catch (err) {
      this.#stream.cancel()
      this.#fail(
        err instanceof ApiError && err.code === 'internal' ? new LinkError('internal', err.message) : err,
      )
    }
  }

  onEnd(): void {
    const body = this.#first ?? this.#body?.take() ?? Buffer.alloc(0)
    this.#resolve({ head: this.#head, body, room: this.#room })
  }

  onError(error: LinkError): void {
    this.#fail(error)
  }

  #fail(error: unknown): void {
    this.#body = undefined
    this.#room.release()
    this.#reject(
      error instanceof Error ? error : new Error('could not assemble the response', { cause: error }),
    )
  }
}
