import type { WebSocket } from 'ws'
import { isTokenCount, splitTokens } from '../../../domain/chat/chat.ts'
import type { TimerWheel, WheelTimer } from '../../../platform/async/timer-wheel.ts'
import { LinkChannel } from '../../../platform/link/channel.ts'
import {
  compact,
  type Frame,
  LinkProtocolError,
  parseMeta,
  unknownNeed,
} from '../../../platform/link/codec.ts'
import { StreamTable } from '../../../platform/link/stream-table.ts'
import {
  type CancelMeta,
  type ErrorMeta,
  FRAME,
  type HeadMeta,
  type HelloMeta,
  LINK_VERSION,
  type LogEntry,
  MAX_CHUNK,
  type MetricEntry,
  type RequestMeta,
  type SpoolMeta,
  type StateBody,
} from '../../../schemas/nodes/link.ts'
import { checkFrameJson } from './frame-weight.ts'
import {
  type AbortSource,
  type ResponseHead,
  type LinkStream,
  LinkError,
  type LinkFault,
  type LinkHandlers,
  type LinkRequest,
} from './link-request.ts'
import { readHello, readLogs, readMetrics, readState } from './reports.ts'

/** Callbacks for the events of a link. */
export interface LinkEvents {
  onHello(hello: HelloMeta): void
  onState(state: StateBody): void
  /** Stores one batch at a time; the link stops reading from the node while a second batch is waiting. */
  onLogs(entries: LogEntry[], ack: BatchAck): Promise<void>
  onMetrics(entries: MetricEntry[], ack: BatchAck): Promise<void>
  /** The node sent a frame of a type that this version does not know. */
  onUnknown(type: number): void
  onClose(reason: string): void
  /** A request handler threw an error. */
  onFault(err: unknown): void
}

/** The position that acknowledges a batch of log lines or losses, and the batch's size. */
export interface BatchAck {
  ackedThrough: number
  bytes: number
}

interface Pending {
  handlers: LinkHandlers
  timer: WheelTimer | undefined
}

type OwnMeta = Required<Pick<RequestMeta, 'model_key' | 'path' | 'content_type' | 'more'>>

/** The last request metadata for a model, and its JSON text. */
interface CachedMeta {
  meta: OwnMeta
  text: string
}

const JSON_TYPE = 'application/json'
const MAX_METAS = 1_000
const MAX_HEADS = 1_000
/** Heads with more bytes aren't cached and are parsed each time. */
const MAX_KEPT_LENGTH = 200
/** A node's error text is cut to this length. */
const MAX_ERROR = 4_000
const FAULTS: ReadonlySet<string> = new Set<LinkFault>([
  'model_cold',
  'no_capacity',
  'cancelled',
  'timeout',
  'stalled',
  'link_lost',
  'unsupported',
  'internal',
])
/** The frame rate limit of one node: enough for tens of thousands of chunks and hundreds of reports a second. */
const PACE = { perSecond: 60_000, burst: 60_000 }

/** The gateway's end of one node's link: sends requests, and receives responses and reports. */
export class NodeLink {
  readonly nodeId: string
  readonly #channel: LinkChannel
  readonly #events: LinkEvents
  readonly #wheel: TimerWheel
  readonly #pending = new StreamTable<Pending>()
  readonly #metas = new Map<string, CachedMeta>()
  readonly #heads = new Map<string, ResponseHead>()
  #lastStream = 0
  #retiring = false
  /** The batch of log lines or losses being stored, and the batches queued behind it. */
  #storing: Promise<void> = Promise.resolve()
  #batches = 0

  constructor(nodeId: string, socket: WebSocket, wheel: TimerWheel, events: LinkEvents) {
    this.nodeId = nodeId
    this.#wheel = wheel
    this.#events = events
    this.#channel = new LinkChannel(socket, {
      onFrame: (frame) => this.#guarded(frame),
      onClose: (reason) => this.#lost(reason),
      onStall: (stream) => this.#fail(stream, 'stalled', 'the node stopped reading the request'),
      onUnknown: (type) => events.onUnknown(type),
      pace: PACE,
    })
  }

  /** Requests in flight on this link. */
  get inFlight(): number {
    return this.#pending.size
  }

  get closed(): boolean {
    return this.#channel.closed
  }

  hello(meta: HelloMeta): void {
    this.#channel.send(FRAME.hello, 0, JSON.stringify({ link_version: LINK_VERSION, ...meta }))
  }

  cancelWork(meta: CancelMeta): void {
    this.#channel.send(FRAME.cancel, 0, JSON.stringify(meta))
  }

  acknowledge(ackedThrough: number): void {
    this.#channel.send(FRAME.ack, 0, `{"upto":${ackedThrough}}`)
  }

  close(reason: string): void {
    this.#channel.close(reason)
  }

  /** Closes the link as soon as no request is in flight. */
  retire(): void {
    this.#retiring = true
    if (this.#pending.size === 0) this.close('the gateway is stopping')
  }

  request(request: LinkRequest, handlers: LinkHandlers): LinkStream {
    const stream = this.#nextStream()
    const pending: Pending = { handlers, timer: undefined }
    this.#pending.set(stream, pending)
    if (request.deadlineMs !== undefined) {
      const expire = () => this.#fail(stream, 'timeout', 'the node did not respond in time')
      pending.timer = this.#wheel.add(request.deadlineMs, expire)
    }
    if (request.signal) this.#follow(stream, request.signal)
    this.#channel.expect(stream)
    this.#sendRequest(stream, request)
    return {
      cancel: () => this.#cancel(stream),
      pause: () => this.#channel.setPaused(stream, true),
      resume: () => this.#channel.setPaused(stream, false),
    }
  }

  #sendRequest(stream: number, request: LinkRequest): void {
    const { modelKey, path, body, contentType = JSON_TYPE, turn, files, order } = request
    const more = body.length > MAX_CHUNK
    const common = { model_key: modelKey, path, content_type: contentType, more }
    const own = {
      turn,
      ...(files?.length && { files, needs: ['files'] }),
      ...(order && { needs: [order] }),
    }
    const isCommon = turn === undefined && !files?.length && !order
    const meta = isCommon ? this.#meta(common) : JSON.stringify({ ...common, ...own })
    if (!more) return this.#channel.send(FRAME.request, stream, meta, body)
    this.#channel.send(FRAME.request, stream, meta)
    this.#channel.write(stream, body)
    this.#channel.end(stream)
  }

  /** Requests to one model repeat the same metadata, so we cache its text. */
  #meta(meta: OwnMeta): string {
    const last = this.#metas.get(meta.model_key)
    if (last && isSame(last.meta, meta)) return last.text
    const text = JSON.stringify(meta)
    if (this.#metas.size > MAX_METAS) this.#metas.clear()
    this.#metas.set(meta.model_key, { meta, text })
    return text
  }

  #nextStream(): number {
    do this.#lastStream = this.#lastStream >= 0xffff_fffe ? 1 : this.#lastStream + 1
    while (this.#pending.has(this.#lastStream))
    return this.#lastStream
  }

  /** The listener is never removed and lives as long as the signal; once the stream has ended, it does nothing. */
  #follow(stream: number, signal: AbortSource): void {
    const abort = () => this.#fail(stream, 'cancelled', 'the caller disconnected')
    if (signal.aborted) queueMicrotask(abort)
    else signal.addEventListener('abort', abort)
  }

  /** A handler that throws ends only its own request. */
  #guarded(frame: Frame): void {
    try {
      this.#receive(frame)
    } catch (err) {
      if (err instanceof LinkProtocolError) throw err
      if (err instanceof LinkError) return this.#fail(frame.stream, err.code, err.message)
      this.#events.onFault(err)
      this.#fail(frame.stream, 'internal', 'the response could not be forwarded')
    }
  }

  #receive(frame: Frame): void {
    checkFrameJson(frame.meta)
    switch (frame.type) {
      case FRAME.end:
        return this.#end(frame)
      case FRAME.head:
        return this.#pending.get(frame.stream)?.handlers.onHead(this.#headOf(frame))
      case FRAME.chunk:
        return this.#pending.get(frame.stream)?.handlers.onChunk(frame.body)
      case FRAME.error: {
        this.#take(frame.stream)?.handlers.onError(errorOf(frame))
        return
      }
      case FRAME.state:
      case FRAME.progress:
        return this.#events.onState(readState(frame))
      case FRAME.hello:
        return this.#events.onHello(readHello(frame))
      case FRAME.log:
        return this.#store(frame, readLogs(frame), (entries, ack) => this.#events.onLogs(entries, ack))
      case FRAME.metric:
        return this.#store(frame, readMetrics(frame), (entries, ack) => this.#events.onMetrics(entries, ack))
      case FRAME.request:
      case FRAME.cancel:
      case FRAME.ack:
      case FRAME.ping:
        throw new LinkProtocolError('a gateway does not accept frames of this type')
    }
  }

  /**
   * A node should wait for the acknowledgement of a batch before it sends the next one. If it doesn't, we stop reading
   * from it until the batch is stored.
   */
  #store<T>(frame: Frame, entries: T[], store: (entries: T[], ack: BatchAck) => Promise<void>): void {
    const { upto: ackedThrough } = parseMeta<SpoolMeta>(frame)
    if (!Number.isSafeInteger(ackedThrough)) throw new LinkProtocolError('the batch has no position')
    this.#batches += 1
    const release = this.#batches > 1 ? this.#channel.hold() : undefined
    this.#storing = this.#storing
      .then(() => store(entries, { ackedThrough, bytes: frame.body.length }))
      .catch((err: unknown) => this.#events.onFault(err))
      .finally(() => {
        this.#batches -= 1
        release?.()
      })
  }

  #end(frame: Frame): void {
    // Parse the head before removing the request, so the request also fails if the head breaks the link.
    const head = frame.meta.length > 0 ? this.#headOf(frame) : undefined
    const handlers = this.#take(frame.stream)?.handlers
    if (!handlers) return
    if (head) {
      handlers.onHead(head)
      if (frame.body.length) handlers.onChunk(compact(frame.body))
    }
    handlers.onEnd()
  }

  /** The same short heads arrive again and again, so we cache them. */
  #headOf(frame: Frame): ResponseHead {
    if (frame.meta.length > MAX_KEPT_LENGTH) return readHead(frame)
    const bytes = frame.meta.toString('latin1')
    let head = this.#heads.get(bytes)
    if (!head) {
      head = readHead(frame)
      if (this.#heads.size >= MAX_HEADS) this.#heads.clear()
      this.#heads.set(bytes, head)
    }
    return head
  }

  #fail(stream: number, code: LinkFault, message: string): void {
    const pending = this.#cancel(stream)
    pending?.handlers.onError(new LinkError(code, message))
  }

  #cancel(stream: number): Pending | undefined {
    const pending = this.#take(stream)
    if (pending) this.#channel.send(FRAME.cancel, stream)
    return pending
  }

  /** Removes a stream and returns it; undefined if it has already ended. */
  #take(stream: number): Pending | undefined {
    const pending = this.#pending.get(stream)
    if (!pending) return undefined
    this.#pending.delete(stream)
    if (pending.timer) this.#wheel.cancel(pending.timer)
    this.#channel.forget(stream)
    if (this.#retiring) setImmediate(() => this.retire())
    return pending
  }

  #lost(reason: string): void {
    for (const [stream] of this.#pending.entries()) {
      this.#take(stream)?.handlers.onError(
        new LinkError('link_lost', `the link to the node broke: ${reason}`),
      )
    }
    this.#events.onClose(reason)
  }
}

/** A newer node may send fault codes that this version doesn't know. */
function errorOf(frame: Frame): LinkError {
  const { code, message } = parseMeta<Partial<Record<keyof ErrorMeta, unknown>>>(frame)
  const fault = typeof code === 'string' && FAULTS.has(code) ? (code as LinkFault) : 'internal'
  return new LinkError(fault, typeof message === 'string' ? message.slice(0, MAX_ERROR) : 'no reason given')
}

function readHead(frame: Frame): ResponseHead {
  const { status, content_type, tokens, tokens_out, needs } =
    parseMeta<Partial<Record<keyof HeadMeta, unknown>>>(frame)
  const unknown = unknownNeed(needs)
  if (unknown !== undefined) {
    throw new LinkError('unsupported', `the node responded with ${unknown}, which this gateway does not know`)
  }
  if (!Number.isInteger(status)) throw new LinkProtocolError('the response head has no valid status')
  // The count goes into the database, where a non-number would make all rows in the same write fail.
  const isCount = frame.type === FRAME.end && isTokenCount(tokens)
  return {
    status: status as number,
    contentType: typeof content_type === 'string' ? content_type : JSON_TYPE,
    tokens: isCount ? splitTokens(tokens, { completion: tokens_out }) : undefined,
  }
}

const isSame = (a: OwnMeta, b: OwnMeta): boolean =>
  a.path === b.path && a.content_type === b.content_type && a.more === b.more
