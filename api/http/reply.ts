export type ReplyHeaders = Readonly<Record<string, string | number>>

/** A response that differs from the declared one in status, headers or body type. */
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
 * Creates a response with its own status and headers: `reply(202, body)`, `reply(204)`, `reply(200, body, { etag })`.
 * The body is a JSON value. Bytes (`Uint8Array`) and streams (`Readable`) are sent unchanged, with the `content-type`
 * in `headers`. A stream is destroyed if the client disconnects.
 */
export const reply = (status: number, body?: unknown, headers?: ReplyHeaders): Reply =>
  new Reply(status, body, headers)

/** Returned by a handler that has responded, or is still responding, through `request.res` itself. */
export const HANDLED = new Reply(0, undefined, undefined)
