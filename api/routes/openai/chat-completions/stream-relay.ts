import { NO_TOKENS, type TokenCounts, tokensIn } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isInputRefused } from '../../../../domain/models/answer.ts'
import type {
  ResponseHead,
  LinkError,
  LinkStream,
  LinkHandlers,
} from '../../../gateway/links/link-request.ts'
import { ResponseBuffer, type MemoryReservation } from '../../../gateway/links/response-memory.ts'
import { toApiError } from '../../../http/errors.ts'
import type { RequestMemory } from '../../../memory/memory.ts'
import { objectIn } from '../calls/answer-text.ts'
import { refusalOf } from '../calls/model-call.ts'
import { EventStream } from './event-stream.ts'
import type { StreamClient } from './sse-client.ts'

/** How a stream ended, as recorded in its row. */
export interface StreamResult {
  tokens: TokenCounts
  /** Why the stream is incomplete. */
  error: string | undefined
  /** When the model's first event arrived, as `performance.now()`. */
  firstAt?: number | undefined
}

/** The limit for events that are waiting until the row is durable; above it, the node is paused. */
const MAX_WAITING = 64 * 1024
const CLIENT_LEFT = 'the client disconnected before its stream ended'

/**
 * Relays one node's response to the client. Forwards events as they arrive, pausing while the client is slow, and sends
 * a complete response as a single event.
 */
export class StreamRelay implements LinkHandlers {
  readonly wantsEvents: boolean
  readonly #client: StreamClient
  readonly #opened: Promise<void>
  readonly #events: EventStream
  /** A response that arrives in one piece. */
  readonly #whole: ResponseBuffer
  readonly #room: MemoryReservation
  /** The account's memory, which the request may include. */
  readonly #memory: RequestMemory | undefined
  readonly #result = Promise.withResolvers<StreamResult>()
  #stream: LinkStream | undefined
  #status = 0
  #isStreamed = false
  /** Events that arrived before the row was durable. */
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #isOpen = false
  /** True once the client has received an event of this response. */
  #hasBegun = false
  #firstAt: number | undefined

  constructor(
    client: StreamClient,
    opened: Promise<void>,
    {
      wantsEvents,
      room,
      memory,
    }: { wantsEvents: boolean; room: MemoryReservation; memory: RequestMemory | undefined },
  ) {
    this.#client = client
    this.#opened = opened
    this.wantsEvents = wantsEvents
    this.#room = room
    this.#memory = memory
    this.#events = new EventStream(room)
    this.#whole = new ResponseBuffer(room)
  }

  /** Resolves when the client has received everything. Rejects while another node may still be tried. */
  async run(request: (handlers: LinkHandlers) => LinkStream): Promise<StreamResult> {
    this.#stream = request(this)
    this.#opened.then(
      () => this.#open(),
      (err: unknown) => {
        this.#stream?.cancel()
        this.#result.reject(err)
      },
    )
    return this.#result.promise
  }

  onHead({ status, contentType }: ResponseHead): void {
    this.#status = status
    this.#isStreamed = this.wantsEvents && status === 200 && contentType.startsWith('text/event-stream')
  }

  onChunk(chunk: Buffer): void {
    if (!this.#isStreamed) return this.#collect(chunk)
    const events = this.#events.take(chunk)
    if (!events) return
    this.#firstAt ??= performance.now()
    this.#send(events)
  }

  onEnd(): void {
    void this.#opened
      .then(() => this.#finish())
      // If opening the row failed, that error is the useful one; otherwise report a generic one.
      .catch((cause: unknown) => {
        const known = cause instanceof ApiError ? cause : undefined
        this.#refuse(
          known ?? new ApiError('internal', "the model's response could not be forwarded", { cause }),
        )
      })
  }

  onError(err: LinkError): void {
    if (err.code === 'cancelled' && this.#hasBegun) {
      const tokens = this.#events.tokens()
      return this.#result.resolve({ tokens, error: CLIENT_LEFT, firstAt: this.#firstAt })
    }
    if (!this.#hasBegun) return this.#result.reject(err)
    this.#client.fail(new ApiError('internal', err.message))
    this.#result.resolve({ tokens: this.#events.tokens(), error: err.message, firstAt: this.#firstAt })
  }

  #open(): void {
    this.#isOpen = true
    if (!this.#isStreamed) return
    const waiting = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    this.#stream?.resume()
    for (const events of waiting) this.#send(events)
  }

  #send(events: Buffer): void {
    if (!this.#isOpen) {
      this.#waiting.push(events)
      this.#waitingBytes += events.length
      if (this.#waitingBytes > MAX_WAITING) this.#stream?.pause()
      return
    }
    this.#hasBegun = true
    const stream = this.#stream
    if (!this.#client.write(events, () => stream?.resume())) stream?.pause()
  }

  #collect(chunk: Buffer): void {
    try {
      this.#whole.append(chunk)
    } catch (err) {
      this.#stream?.cancel()
      this.#refuse(toApiError(err))
    }
  }

  #finish(): void {
    if (!this.#isStreamed) return this.#finishWhole(this.#whole.take())
    const rest = this.#events.rest()
    if (rest) this.#send(rest)
    this.#end(this.#events.tokens(), this.#events.isDone)
  }

  #finishWhole(body: Buffer): void {
    if (this.#status !== 200) return this.#refuse(refusalOf(this.#status, body, this.#memory))
    try {
      this.#room.holdValues(body)
    } catch (err) {
      return this.#refuse(toApiError(err))
    }
    const completion = objectIn(body)
    if (!completion) {
      return this.#refuse(new ApiError('internal', 'the model did not return events'))
    }
    this.#send(singleChunk(completion))
    this.#end(tokensIn(completion), false)
  }

  #end(tokens: TokenCounts, saidDone: boolean): void {
    this.#client.end({ saidDone })
    this.#result.resolve({ tokens, error: undefined, firstAt: this.#firstAt })
  }

  /** Reports the error as a status while that is possible, otherwise as an event. */
  #refuse(error: ApiError): void {
    // If the model rejected a request with memory, retry without it, even if the stream has already been opened.
    const isRepeated = (this.#memory?.isGiven ?? false) && isInputRefused(error.status)
    if (isRepeated || !this.#client.hasHead) return this.#result.reject(error)
    this.#client.fail(error)
    this.#result.resolve({ tokens: NO_TOKENS, error: error.message })
  }
}

interface Choice {
  index?: number
  message?: { tool_calls?: object[] }
  [field: string]: unknown
}

/** Converts a complete response to the one event of a stream, for servers that cannot stream. */
function singleChunk(completion: Record<string, unknown>): Buffer {
  const choices = Array.isArray(completion.choices) ? (completion.choices as Choice[]) : []
  const chunk = {
    ...completion,
    object: 'chat.completion.chunk',
    choices: choices.map(({ message, ...rest }) => ({ ...rest, delta: deltaOf(message) })),
  }
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`)
}

/** Clients distinguish fragments of tool calls by their index. */
function deltaOf(message: Choice['message'] = {}): object {
  if (!Array.isArray(message.tool_calls)) return message
  return { ...message, tool_calls: message.tool_calls.map((call, index) => ({ index, ...call })) }
}
