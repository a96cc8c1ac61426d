export type ReplyHeaders = Readonly<Record<string, string | number>>

/** An answer that differs from the declared one in status, headers or kind of body. */
export class Reply {
  readonly status: number
  readonly body: unknown
  readonly headers: ReplyHeaders | undefined

  constructor(status: number, body: unknown, headers: ReplyHeaders | undefined) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/**
 * Answers with a status and headers of one's own: `reply(202, body)`, `reply(204)`, `reply(200, body, { etag })`.
 * The body is a JSON value; bytes (`Uint8Array`) and streams (`Readable`) go out as they are, under the
 * `content-type` given in `headers`. A stream is destroyed when the client leaves.
 */
export const reply = (status: number, body?: unknown, headers?: ReplyHeaders): Reply =>
  new Reply(status, body, headers)

/** Returned by a handler that has answered (or goes on answering) through `request.res` itself. */
export const HANDLED = new Reply(0, undefined, undefined)
