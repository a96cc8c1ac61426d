import type { Dispatcher } from 'undici'
import { CHAT_PATH, tokensOf } from '../../domain/chat/chat.ts'
import type { LinkChannel } from '../../platform/link/channel.ts'
import { FRAME, type HeadMeta, MAX_CHUNK } from '../../schemas/nodes/link.ts'
import { InputFileError } from '../models/input-files.ts'
import type { ModelUse } from '../models/manager.ts'
import { FROM_GATEWAYS, type ServerTurn } from '../models/server-turns.ts'
import { withoutPaths } from '../models/without-paths.ts'
import { ServedName } from './served-name.ts'

type ResponseController = Dispatcher.DispatchController
type ResponseHeaders = Record<string, string | string[] | undefined>

/** Requests and responses under this path name their model. */
const OPENAI = '/v1/'

export interface ServedRequest {
  method: string
  path: string
  contentType: string
  body: Buffer
}

/** A request in progress on this node. */
export interface ActiveRequest {
  /** Ends the request at once because the caller has disconnected. */
  abort(): void
}

/**
 * Forwards one request from a link to a model server, and its response back. A short response is a single `end` frame.
 * A long or streamed one is sent in chunks, and is paused at the model server while the stream has no credit.
 */
export class ServeRequest implements ActiveRequest, Dispatcher.DispatchHandler {
  readonly #channel: LinkChannel
  readonly #stream: number
  readonly #use: ModelUse
  readonly #onDone: () => void
  #controller: ResponseController | undefined
  #isChat = false
  #name: ServedName | undefined
  #head: HeadMeta = { status: 0 }
  /** The chunks of a response that may still be short; undefined once the head has been sent. */
  #short: Buffer[] | undefined = []
  #shortBytes = 0
  #isOver = false
  #turn: ServerTurn | undefined
  #fetching: AbortController | undefined

  constructor(channel: LinkChannel, stream: number, use: ModelUse, onDone: () => void) {
    this.#channel = channel
    this.#stream = stream
    this.#use = use
    this.#onDone = onDone
  }

  start({ method, path, contentType, body }: ServedRequest): void {
    this.#isChat = path === CHAT_PATH
    const { served_model: served } = this.#use.server.profile
    if (path.startsWith(OPENAI) && served !== undefined) this.#name = new ServedName(served)
    const requestBody = this.#name ? this.#name.request(body) : body
    const { pool, turns } = this.#use.server
    const options = {
      method: method as Dispatcher.HttpMethod,
      path,
      headers: { 'content-type': contentType },
      body: requestBody.length ? requestBody : null,
    }
    this.#turn = turns.turn(FROM_GATEWAYS, () => pool.dispatch(options, this))
    this.#turn.enter()
  }

  /** Starts the request once its files have been fetched into its body. */
  async startWith(
    request: Omit<ServedRequest, 'body'>,
    fetchBody: (signal: AbortSignal) => Promise<Buffer>,
  ): Promise<void> {
    this.#fetching = new AbortController()
    try {
      const body = await fetchBody(this.#fetching.signal)
      if (!this.#isOver) this.start({ ...request, body })
    } catch (err) {
      if (!this.#isOver) this.#failBefore(err)
    }
  }

  /** Closes the connection to the model server at once because the caller has disconnected. */
  abort(): void {
    this.#over()
    this.#fetching?.abort()
    this.#controller?.abort(new Error('cancelled by the gateway'))
  }

  onRequestStart(controller: ResponseController): void {
    this.#controller = controller
    // The request may have been cancelled while it waited for its turn.
    if (this.#isOver) controller.abort(new Error('cancelled by the gateway'))
  }

  onResponseStart(_controller: ResponseController, status: number, headers: ResponseHeaders): void {
    const type = headers['content-type']
    const contentType = typeof type === 'string' ? type : 'application/octet-stream'
    this.#head = { status, content_type: contentType }
    if (contentType.startsWith('text/event-stream')) this.#sendHead()
  }

  onResponseData(controller: ResponseController, chunk: Buffer): void {
    if (this.#isOver) return
    this.#take(controller, this.#name ? this.#name.answer(chunk) : chunk)
  }

  onResponseEnd(controller: ResponseController): void {
    if (this.#isOver) return
    if (this.#name) this.#take(controller, this.#name.rest())
    if (this.#short) {
      const [first, second] = this.#short
      this.#endShort(first && !second ? first : Buffer.concat(this.#short))
    } else {
      this.#channel.end(this.#stream)
    }
    this.#over()
  }

  onResponseError(_controller: ResponseController | undefined, err: Error): void {
    if (this.#isOver) return
    this.#channel.forget(this.#stream)
    const message = `the model server dropped the connection: ${err.message}`
    const code = isUnreached(err) ? 'model_cold' : 'internal'
    this.#channel.send(FRAME.error, this.#stream, JSON.stringify({ code, message }))
    this.#over()
  }

  /** Fails a request before it starts. If its file may become available later, a task fetches it with retries. */
  #failBefore(err: unknown): void {
    const message = err instanceof Error ? err.message : String(err)
    if (err instanceof InputFileError && !err.retryable) {
      const head: HeadMeta = { status: 422, content_type: 'application/json' }
      const errorBody = Buffer.from(JSON.stringify({ error: { message } }))
      this.#channel.end(this.#stream, JSON.stringify(head), errorBody)
    } else {
      this.#channel.forget(this.#stream)
      this.#channel.send(FRAME.error, this.#stream, JSON.stringify({ code: 'no_capacity', message }))
    }
    this.#over()
  }

  #take(controller: ResponseController, bytes: Buffer): void {
    if (bytes.length === 0) return
    if (!this.#short) return this.#write(controller, bytes)
    this.#short.push(bytes)
    this.#shortBytes += bytes.length
    if (this.#shortBytes > MAX_CHUNK) this.#sendHead()
  }

  /** Parses the usage of a chat here, on one of many nodes, to take load off the gateway. */
  #endShort(body: Buffer): void {
    const tokens = this.#isChat && this.#head.status === 200 ? tokensOf(body.toString()) : undefined
    // An internal error may name files on this node's disk; a 4xx only quotes the request.
    const responseBody = this.#head.status >= 500 ? Buffer.from(withoutPaths(body.toString())) : body
    this.#channel.end(
      this.#stream,
      JSON.stringify({
        ...this.#head,
        ...(tokens && { tokens: tokens.in + tokens.out, tokens_out: tokens.out }),
      }),
      responseBody,
    )
  }

  #sendHead(): void {
    const waiting = this.#short ?? []
    this.#short = undefined
    this.#channel.send(FRAME.head, this.#stream, JSON.stringify(this.#head))
    for (const chunk of waiting) this.#write(this.#controller, chunk)
  }

  #write(controller: ResponseController | undefined, chunk: Buffer): void {
    const isTaken = this.#channel.write(this.#stream, chunk, () => controller?.resume())
    if (!isTaken) controller?.pause()
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#turn?.[Symbol.dispose]()
    this.#use[Symbol.dispose]()
    this.#onDone()
  }
}

/**
 * Returns whether the model server was no longer listening. If so, it has not received the request, and another node
 * may try.
 */
const isUnreached = (err: Error): boolean =>
  'code' in err && (err.code === 'ECONNREFUSED' || err.code === 'ENOENT')
