import type { TokenCounts } from '../../../domain/chat/chat.ts'
import type { InputFile } from '../../../schemas/link.ts'

/** The reasons for which a request over a link fails. */
export type LinkFault =
  | 'model_cold'
  | 'no_capacity'
  | 'cancelled'
  | 'timeout'
  | 'stalled'
  | 'link_lost'
  | 'unsupported'
  | 'internal'

export class LinkError extends Error {
  override readonly name = 'LinkError'
  readonly code: LinkFault

  constructor(code: LinkFault, message: string) {
    super(message)
    this.code = code
  }
}

/** The part of an `AbortSignal` that suffices for work that only needs one notification of an abort. */
export interface Aborting {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
}

/** One request to a model on a node; its body is passed on unchanged. */
export interface LinkRequest {
  /** The account whose memory a large response uses. */
  accountId: string
  modelKey: string
  path: string
  body: Buffer
  contentType?: string
  /** Tells the requests of one caller from those of others, where the node gives callers their turns. */
  turn?: string | undefined
  /** The files of the body that the node fetches; none when empty or absent. */
  files?: readonly InputFile[] | undefined
  /** Is for the node in place of the model: to unload it, or to tell lines that the node keeps of itself. */
  order?: 'evict' | 'lines'
  /** The request is cancelled on the node after this time. */
  deadlineMs?: number
  /** The signal of one request of a caller; it does not outlive that request. */
  signal?: Aborting | undefined
}

/** The head of a model server's response. */
export interface Head {
  status: number
  contentType: string
  /** The `usage` of a short chat response; undefined when it must still be parsed. */
  tokens: TokenCounts | undefined
}

/** The handlers of a response: one head, any number of chunks, one end; or an error at any point. */
export interface LinkHandlers {
  onHead(head: Head): void
  onChunk(chunk: Buffer): void
  onEnd(): void
  onError(error: LinkError): void
}

/** A request in flight. After `cancel` no handler is called. */
export interface LinkStream {
  cancel(): void
  /** Stops the node's chunks while the client is slow; only this stream waits. */
  pause(): void
  resume(): void
}
