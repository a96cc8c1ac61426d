import WebSocket from 'ws'
import { backoff } from '../../platform/async/retry.ts'
import { LinkChannel } from '../../platform/link/channel.ts'
import {
  type Frame,
  LinkProtocolError,
  parseMeta,
  unknownNeed,
  versionIn,
} from '../../platform/link/codec.ts'
import { StreamTable } from '../../platform/link/stream-table.ts'
import type { Logger } from '../../platform/log.ts'
import { reasonOf } from '../../platform/reason.ts'
import {
  type AckMeta,
  type CancelMeta,
  FRAME,
  type FrameType,
  type HelloMeta,
  LINK_HEADER,
  LINK_VERSION,
  type LogsResponse,
  type LogsRequest,
  MAX_CHUNK,
  type RequestMeta,
} from '../../schemas/nodes/link.ts'
import type { NodeInventory, NodeModel, NodeReport } from '../../schemas/nodes/node.ts'
import type { PayloadPublisher } from '../cohorts/payload-publisher.ts'
import type { Identity } from '../control/identity.ts'
import type { RecentLogs } from '../control/recent-logs.ts'
import type { Spool } from '../control/spool.ts'
import type { WorkRegistry } from '../control/work-registry.ts'
import { emit } from '../events.ts'
import type { InputFiles } from '../models/input-files.ts'
import type { ModelManager } from '../models/manager.ts'
import type { Tools } from '../tools/tools.ts'
import { ServeRequest, type ActiveRequest } from './serve-request.ts'
import { ServeTool } from './serve-tool.ts'

const LINK_PATH = '/api/v1/nodes/link'
const RETRY_DELAY_MS = { first: 200, longest: 2_000 }
/**
 * Masking prevents senders who choose the bytes, such as callers of a model, from poisoning intermediate caches (RFC
 * 6455, 10.3). Over TLS or within this machine there can be no cache. An all-zero mask lets both ends skip masking,
 * which saves an eighth of a node's CPU in streams.
 */
const noMask = (mask: Buffer): void => void mask.fill(0)
const isSealed = ({ protocol, hostname }: URL): boolean =>
  protocol === 'https:' || ['127.0.0.1', '[::1]', 'localhost'].includes(hostname)
const HANDSHAKE_TIMEOUT_MS = 10_000
/** A shorter link outage deserves no warning: gateways restart, and send a notice when they close a link. */
const WARNING_DELAY_MS = 10_000
/**
 * Gateways respect a model's concurrency, so requests queue here only when several gateways start some at the same
 * time, or when durable work is running too. Older gateways send any number.
 */
const MAX_WAITING = 32
/** The limit for the log lines in a frame's body, without the JSON around them. */
const MAX_LINE_BYTES = MAX_CHUNK - 4_096

export interface GatewayLinkOptions {
  url: string
  identity: Identity
  inventory: NodeInventory
  models: ModelManager
  tools: Tools
  inputs: InputFiles
  spool: Spool
  work: WorkRegistry
  keepers: Pick<PayloadPublisher, 'release'>
  lines: Pick<RecentLogs, 'newest'>
  report: () => NodeReport
  onHello: (hello: HelloMeta) => void
  /** Called when the link breaks or the gateway refuses it. */
  onNoLink: () => void
  log: Logger
}

interface InboundRequest {
  meta: RequestMeta
  chunks: Buffer[]
}

/**
 * The node's end of its link to one gateway. Reopens the link with back-off as long as the gateway is on the list.
 */
export class GatewayLink {
  readonly url: string
  readonly #options: GatewayLinkOptions
  readonly #serving = new StreamTable<ActiveRequest>()
  readonly #inbound = new Map<number, InboundRequest>()
  readonly #sink = {
    sendBatch: (kind: FrameType, ackedThrough: number, body: Buffer) =>
      this.#channel?.send(kind, 0, `{"upto":${ackedThrough}}`, body),
  }
  #channel: LinkChannel | undefined
  #socket: WebSocket | undefined
  #retry: NodeJS.Timeout | undefined
  #peerVersion = 1
  #unknownFrames = 0
  #failures = 0
  #failingSince: number | undefined
  #closed = false

  constructor(options: GatewayLinkOptions) {
    this.url = options.url
    this.#options = options
    this.#connect()
  }

  get isOpen(): boolean {
    return this.#channel !== undefined
  }

  /** Reports a change of one model at once; all other changes wait for the next report. */
  tellModel(model: NodeModel): void {
    const type = model.bytes_downloaded === undefined ? FRAME.state : FRAME.progress
    this.#channel?.send(type, 0, '', Buffer.from(JSON.stringify({ model })))
  }

  tellReport(report: Buffer): void {
    this.#channel?.send(FRAME.state, 0, '', report)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    this.#channel?.close('the node is stopping')
    this.#socket?.terminate()
  }

  #connect(): void {
    const { identity } = this.#options
    const url = new URL(this.url)
    const path = url.pathname.replace(/\/$/, '') + LINK_PATH
    const socket = new WebSocket(`${url.protocol === 'https:' ? 'wss' : 'ws'}://${url.host}${path}`, {
      headers: { ...identity.sign('GET', path), [LINK_HEADER]: String(LINK_VERSION) },
      perMessageDeflate: false,
      ...(isSealed(url) && { generateMask: noMask }),
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    })
    this.#socket = socket
    const failed = (err: Error) => this.#again(err.message)
    socket.once('error', failed)
    socket.once('upgrade', ({ headers }) => (this.#peerVersion = versionIn(headers[LINK_HEADER])))
    socket.once('open', () => {
      socket.off('error', failed)
      this.#opened(socket)
    })
  }

  #opened(socket: WebSocket): void {
    const { inventory, report, spool } = this.#options
    this.#failures = 0
    this.#failingSince = undefined
    this.#unknownFrames = 0
    this.#channel = new LinkChannel(socket, {
      onFrame: (frame) => this.#receive(frame),
      onClose: (reason) => this.#lost(reason),
      onStall: (stream) => this.#stall(stream),
      onUnknown: (type) => this.#unknown(type),
    })
    this.#channel.send(
      FRAME.hello,
      0,
      '',
      Buffer.from(JSON.stringify({ link_version: LINK_VERSION, inventory })),
    )
    this.tellReport(Buffer.from(JSON.stringify({ report: report() })))
    spool.attach(this.#sink)
    emit(this.#options.log, 'link.opened', { gateway: this.url, link_version: this.#peerVersion })
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case FRAME.request:
        return this.#request(frame)
      case FRAME.chunk:
        this.#inbound.get(frame.stream)?.chunks.push(frame.body)
        return
      case FRAME.end:
        return this.#bodyComplete(frame.stream)
      case FRAME.cancel:
        return frame.stream ? this.#cancel(frame.stream) : this.#cancelWork(parseMeta<CancelMeta>(frame))
      case FRAME.ack:
        return this.#options.spool.acknowledge(parseMeta<AckMeta>(frame).upto ?? 0)
      case FRAME.hello:
        return this.#options.onHello(parseMeta<HelloMeta>(frame))
      case FRAME.state:
      case FRAME.head:
      case FRAME.error:
      case FRAME.progress:
      case FRAME.log:
      case FRAME.metric:
      case FRAME.ping:
        throw new LinkProtocolError('a node does not accept frames of this type')
    }
  }

  #unknown(type: number): void {
    this.#unknownFrames += 1
    if (this.#unknownFrames > 1) return
    emit(this.#options.log, 'gateway.unknown_frame', { gateway: this.url, frame_type: type })
  }

  #request(frame: Frame): void {
    const meta = parseMeta<RequestMeta>(frame)
    const unknown = unknownNeed(meta.needs)
    if (unknown !== undefined) {
      return this.#refuse(frame.stream, 'unsupported', `this node does not support ${unknown}`)
    }
    if (meta.needs?.includes('evict')) return void this.#evict(frame.stream, meta.model_key)
    if (meta.needs?.includes('lines')) return this.#tellLines(frame)
    if (!meta.more) return this.#serve(frame.stream, meta, frame.body)
    this.#inbound.set(frame.stream, { meta, chunks: [] })
    this.#channel?.expect(frame.stream)
  }

  #tellLines({ stream, body }: Frame): void {
    try {
      const { source, limit } = JSON.parse(body.toString()) as LogsRequest
      const logs: LogsResponse = { lines: this.#options.lines.newest(source, limit, MAX_LINE_BYTES) }
      const meta = { status: 200, content_type: 'application/json' }
      this.#channel?.send(FRAME.end, stream, JSON.stringify(meta), Buffer.from(JSON.stringify(logs)))
    } catch (err) {
      this.#refuse(stream, 'internal', reasonOf(err))
    }
  }

  async #evict(stream: number, modelKey: string): Promise<void> {
    const channel = this.#channel
    const { models, report } = this.#options
    try {
      const reason = await models.evict(modelKey, report().draining)
      const meta = { status: reason === undefined ? 200 : 409, content_type: 'application/json' }
      channel?.send(FRAME.end, stream, JSON.stringify(meta), Buffer.from(JSON.stringify({ reason })))
    } catch (err) {
      this.#refuse(stream, 'internal', reasonOf(err))
    }
  }

  #bodyComplete(stream: number): void {
    const inbound = this.#inbound.get(stream)
    if (!inbound) return
    this.#inbound.delete(stream)
    this.#channel?.forget(stream)
    this.#serve(stream, inbound.meta, Buffer.concat(inbound.chunks))
  }

  #serve(stream: number, meta: RequestMeta, body: Buffer): void {
    const channel = this.#channel
    if (!channel) return
    const { models, tools, inputs } = this.#options
    if (tools.has(meta.model_key)) return this.#serveTool(channel, stream, meta, body)
    const use = models.use(meta.model_key)
    if (!use) return this.#refuse(stream, 'model_cold', 'the model is not loaded on this node')

    if (use.server.turns.waitingFromGateways >= MAX_WAITING) {
      use[Symbol.dispose]()
      return this.#refuse(stream, 'no_capacity', 'too many requests are waiting for this model on this node')
    }
    const { path, method = 'POST', content_type: contentType = 'application/json', files, turn } = meta
    const { profile } = use.server
    // An engine that can sleep has control routes, which no caller may reach, even if a gateway passed one on.
    if (profile.sleep && path !== profile.infer_path) {
      use[Symbol.dispose]()
      return this.#refuse(stream, 'unsupported', `this model has no route ${path}`)
    }
    const admission = files && inputs.enter()
    if (files && !admission) {
      use[Symbol.dispose]()
      return this.#refuse(stream, 'no_capacity', 'this node is fetching files for other requests')
    }
    const serving = new ServeRequest(channel, stream, use, () => {
      admission?.[Symbol.dispose]()
      this.#serving.delete(stream)
    })
    this.#serving.set(stream, serving)
    const request = { path, method, contentType }
    if (!files) return serving.start({ ...request, body })
    void serving.startWith(request, (signal) => inputs.fetch({ files, owner: turn ?? '' }, body, signal))
  }

  #serveTool(
    channel: LinkChannel,
    stream: number,
    { model_key: modelKey, turn }: RequestMeta,
    input: Buffer,
  ): void {
    const serving = new ServeTool(channel, stream, () => this.#serving.delete(stream))
    this.#serving.set(stream, serving)
    void serving.run((signal) => this.#options.tools.run(modelKey, input, signal, turn))
  }

  #refuse(stream: number, code: string, message: string): void {
    this.#channel?.send(FRAME.error, stream, JSON.stringify({ code, message }))
  }

  #stall(stream: number): void {
    this.#cancel(stream)
    this.#refuse(stream, 'stalled', 'the client stopped reading the response')
  }

  #cancel(stream: number): void {
    this.#inbound.delete(stream)
    this.#serving.get(stream)?.abort()
    this.#channel?.forget(stream)
  }

  #cancelWork({ job_id, task_id, attempt, paused_job_id, edge }: CancelMeta): void {
    if (edge) this.#options.keepers.release({ edgeId: edge.edge_id, attempt: edge.attempt })
    if (job_id !== undefined) this.#options.work.cancel(job_id)
    if (task_id !== undefined) this.#options.work.cancel(task_id, attempt)
    if (paused_job_id !== undefined) this.#options.work.pause(paused_job_id)
  }

  #lost(reason: string): void {
    this.#channel = undefined
    this.#options.spool.detach(this.#sink)
    this.#inbound.clear()
    // The gateway failed these requests when the link broke.
    for (const [, serving] of this.#serving.entries()) serving.abort()
    this.#again(reason)
  }

  #again(reason: string): void {
    if (this.#closed) return
    const delay = backoff(this.#failures, RETRY_DELAY_MS) * (0.5 + Math.random() / 2)
    this.#failures += 1
    this.#failingSince ??= performance.now()
    // A gateway that is starting, or has just closed the link, is usually back soon.
    const isBrief = performance.now() - this.#failingSince < WARNING_DELAY_MS
    emit(this.#options.log, isBrief ? 'link.interrupted' : 'link.lost', {
      gateway: this.url,
      reason,
      retry_ms: Math.round(delay),
    })
    this.#retry = setTimeout(() => this.#connect(), delay)
    this.#options.onNoLink()
  }
}
