/** One attempt to hand a payload over an edge. */
export interface EdgeAttempt {
  edgeId: string
  attempt: number
}

/** A complete file with its digest. It is stored until it has been disposed of and no edge holds it. */
export interface Payload extends Disposable {
  readonly path: string
  readonly sizeBytes: number
  readonly sha256: string
}
