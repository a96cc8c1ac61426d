import type { TokenCounts } from '../../../domain/chat/chat.ts'
import type { InputFile } from '../../../schemas/nodes/link.ts'

/** The reasons why a request over a link fails. */
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

/** The subset of `AbortSignal` for work that only needs to be notified once. */
export interface AbortSource {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
}

/** One request to a model on a node; its body is passed on unchanged. */
export interface LinkRequest {
  /** The account whose memory budget a large response counts against. */
  accountId: string
  modelKey: string
  path: string
  body: Buffer
  contentType?: string
  /** Identifies the caller, so the node can let callers take turns. */
  turn?: string | undefined
  /** Files that the node fetches for the body. */
  files?: readonly InputFile[] | undefined
  /** A command for the node itself rather than a model: evict a model, or return the node's recent logs. */
  order?: 'evict' | 'lines'
  /** The request is cancelled on the node after this time. */
  deadlineMs?: number
  /** The signal of the caller's request; it doesn't outlive that request. */
  signal?: AbortSource | undefined
}

/** The status and content type of a model server's response, and the tokens that it used. */
export interface ResponseHead {
  status: number
  contentType: string
  /** The `usage` of a short chat response; undefined if it must still be parsed. */
  tokens: TokenCounts | undefined
}

/** The handlers of a response: one head, any number of chunks, one end; or an error at any point. */
export interface LinkHandlers {
  onHead(head: ResponseHead): void
  onChunk(chunk: Buffer): void
  onEnd(): void
  onError(error: LinkError): void
}

/** A request in flight. No handler is called after `cancel`. */
export interface LinkStream {
  cancel(): void
  /** Stops the node's chunks while the client is slow; only this stream waits. */
  pause(): void
  resume(): void
}
