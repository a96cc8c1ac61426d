/** One attempt to hand a payload over an edge. */
export interface EdgeAttempt {
  edgeId: string
  attempt: number
}

/** A complete file with its digest. It stays while it is held for an edge, or until it is disposed, whichever is longer. */
export interface Payload extends Disposable {
  readonly path: string
  readonly sizeBytes: number
  readonly sha256: string
}
