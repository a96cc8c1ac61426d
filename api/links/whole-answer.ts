import { type Head, LinkError, type LinkExchange, type LinkHandlers } from './link-request.ts'

/** A whole answer of a model server, as it came. */
export interface LinkAnswer {
  head: Head
  body: Buffer
}

/** Larger answers are for streams. */
const MAX_ANSWER = 64 * 1024 * 1024
const NO_HEAD: Head = { status: 0, contentType: '', tokens: undefined }

/** Puts an answer together that is wanted whole; `answer` rejects with a `LinkError`. */
export class WholeAnswer implements LinkHandlers {
  readonly answer: Promise<LinkAnswer>
  readonly #resolve: (answer: LinkAnswer) => void
  readonly #reject: (error: LinkError) => void
  readonly #exchange: LinkExchange
  #head = NO_HEAD
  readonly #chunks: Buffer[] = []
  #bytes = 0

  /** @param request starts what is to be answered; no handler is called before it returns. */
  constructor(request: (handlers: LinkHandlers) => LinkExchange) {
    const { promise, resolve, reject } = Promise.withResolvers<LinkAnswer>()
    this.answer = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#exchange = request(this)
  }

  onHead(head: Head): void {
    this.#head = head
  }

  onChunk(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes <= MAX_ANSWER) return
    this.#exchange.cancel()
    this.#reject(new LinkError('internal', `the model's answer exceeds ${MAX_ANSWER / 1024 / 1024} MB`))
  }

  onEnd(): void {
    const chunks = this.#chunks
    this.#resolve({ head: this.#head, body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) })
  }

  onError(error: LinkError): void {
    this.#reject(error)
  }
}
