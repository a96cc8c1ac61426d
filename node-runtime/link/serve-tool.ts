import type { LinkChannel } from '../../platform/link/channel.ts'
import { FRAME, type HeadMeta, MAX_CHUNK } from '../../schemas/nodes/link.ts'
import { ToolError } from '../tools/tool-error.ts'
import type { ActiveRequest } from './serve-request.ts'

const JSON_TYPE = 'application/json'
/** A failed tool would fail with this input on every node, so the request isn't retried. */
const FAILED = 422

/** Runs a tool once and sends its result back over a link. */
export class ServeTool implements ActiveRequest {
  readonly #channel: LinkChannel
  readonly #stream: number
  readonly #onDone: () => void
  readonly #work = new AbortController()

  constructor(channel: LinkChannel, stream: number, onDone: () => void) {
    this.#channel = channel
    this.#stream = stream
    this.#onDone = onDone
  }

  async run(work: (signal: AbortSignal) => Promise<Buffer>): Promise<void> {
    try {
      const result = await work(this.#work.signal)
      if (!this.#work.signal.aborted) this.#end(200, result)
    } catch (err) {
      if (!this.#work.signal.aborted) this.#fail(err)
    } finally {
      this.#onDone()
    }
  }

  abort(): void {
    this.#work.abort(new ToolError('the caller disconnected'))
  }

  #end(status: number, body: Buffer): void {
    const head: HeadMeta = { status, content_type: JSON_TYPE }
    if (body.length <= MAX_CHUNK) return this.#channel.end(this.#stream, JSON.stringify(head), body)
    this.#channel.send(FRAME.head, this.#stream, JSON.stringify(head))
    this.#channel.write(this.#stream, body)
    this.#channel.end(this.#stream)
  }

  #fail(err: unknown): void {
    if (err instanceof ToolError && !err.isOfNode) {
      return this.#end(FAILED, Buffer.from(JSON.stringify({ error: { message: err.message } })))
    }
    const message = err instanceof Error ? err.message : String(err)
    this.#channel.send(FRAME.error, this.#stream, JSON.stringify({ code: 'no_capacity', message }))
  }
}
