/** Why a request over a link came to nothing. */
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

/** As much of an `AbortSignal` as work needs that only has to hear once that it is not wanted any more. */
export interface Aborting {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
}

/** One request to a model on a node; its body is passed on untouched. */
export interface LinkRequest {
  /** Who it is for: a large answer takes of the memory of this account. */
  accountId: string
  modelKey: string
  path: string
  body: Buffer
  contentType?: string
  /** After this long the request is cancelled on the node. */
  deadlineMs?: number
  /** Of one request of a caller: it lives no longer than that. */
  signal?: Aborting | undefined
}

/** The head of a model server's answer. */
export interface Head {
  status: number
  contentType: string
  /** Of a short answer to a chat, what it counts in its `usage`; undefined where that has still to be read. */
  tokens: number | undefined
}

/** What becomes of a request: one head, any number of chunks, one end; or an error at any point. */
export interface LinkHandlers {
  onHead(head: Head): void
  onChunk(chunk: Buffer): void
  onEnd(): void
  onError(error: LinkError): void
}

/** A request under way. After `cancel` no handler is called any more. */
export interface LinkStream {
  cancel(): void
  /** Stops the node's chunks while the client is slow; only this stream waits. */
  pause(): void
  resume(): void
}
