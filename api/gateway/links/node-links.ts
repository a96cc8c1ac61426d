import { isDeepStrictEqual } from 'node:util'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { WebSocket } from 'ws'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import { isBadRow } from '../../../db/errors.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import * as nodeRepository from '../../../db/repositories/nodes/nodes.ts'
import type { NodeDecision } from '../../../db/repositories/nodes/nodes.ts'
import * as nodeReportRepository from '../../../db/repositories/nodes/reports.ts'
import type { Database } from '../../../db/tables.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import { TimerWheel } from '../../../platform/async/timer-wheel.ts'
import { TokenBucket } from '../../../platform/async/token-bucket.ts'
import type { Logger } from '../../../platform/log.ts'
import type { CancelMeta, HelloMeta, StateBody } from '../../../schemas/nodes/link.ts'
import type { NodeInventory, NodeModel, NodeReport } from '../../../schemas/nodes/node.ts'
import { emit } from '../../events.ts'
import { type NodeResponse, BufferedResponse } from './buffered-response.ts'
import { LinkError, type LinkStream, type LinkHandlers, type LinkRequest } from './link-request.ts'
import { type LinkedNode, createLinkedNode, snapshotOf } from './linked-node.ts'
import type { MemoryHistory } from './memory-history.ts'
import { type NodeDecisions, decisionsOf, helloOf } from './node-decisions.ts'
import { type BatchAck, NodeLink } from './node-link.ts'
import { boundedInventory, boundedModels, MAX_MODELS, reportedKeys } from './reports.ts'
import { ResponseMemory } from './response-memory.ts'
import { StateWriter, type StateWriterOptions } from './state-writer.ts'

export interface NodeLinksOptions extends StateWriterOptions {
  /** Notifies about decisions that any gateway made about nodes. */
  watch: Pick<CacheWatch, 'on'>
  history: Pick<MemoryHistory, 'note'>
  /** The memory in bytes for the responses from all models together. */
  answerBytes: number
}

export type ModelListener = (nodeId: string, model: NodeModel) => void

const GATEWAY_LIST_INTERVAL_MS = 5_000
const FORGET_DELAY_MS = 60_000
const RETRY_DELAY_MS = 500
const LINKS = { perSecond: 0.5, burst: 30 }
/** The maximum number of models per link for which we query the database. */
const MAX_ASKED = 1_000

/** The nodes linked to this gateway: their reports, and requests to their models. */
export class NodeLinks implements AsyncDisposable {
  /** The linked nodes' reports, ordered for choosing a warm node. */
  readonly placement = new PlacementIndex()
  /** The addresses of all running gateways, in order. */
  gateways: readonly string[] = []
  /** The memory for responses that pass through this gateway. */
  readonly memory: ResponseMemory
  readonly #db: Kysely<Database>
  readonly #log: Logger
  readonly #states: StateWriter
  readonly #history: Pick<MemoryHistory, 'note'>
  readonly #wheel = new TimerWheel()
  readonly #nodes = new Map<string, LinkedNode>()
  readonly #listeners = new Set<ModelListener>()
  readonly #linking = new LRUCache<string, TokenBucket>({ max: 10_000 })
  readonly #timers: NodeJS.Timeout[]
  #snapshots: readonly NodeSnapshot[] | undefined
  #syncing: Promise<void> = Promise.resolve()
  /** True if there was a notification about decisions that we haven't read yet. */
  #isOutdated = false
  #closed = false

  constructor(options: NodeLinksOptions) {
    this.#db = options.db
    this.#log = options.log
    this.memory = new ResponseMemory(options.answerBytes)
    this.#states = new StateWriter(options)
    this.#history = options.history
    // Read and send decisions one after another, so the latest decision is sent last.
    options.watch.on('node', () => {
      if (this.#isOutdated) return
      this.#isOutdated = true
      this.#syncing = this.#syncing.then(() => this.#syncDecisions())
    })
    this.#timers = [
      setInterval(() => void this.#refreshGateways(), GATEWAY_LIST_INTERVAL_MS),
      setInterval(() => void nodeRepository.forgetSignatures(this.#db).catch(() => {}), FORGET_DELAY_MS),
    ]
    for (const timer of this.#timers) timer.unref()
  }

  /** Returns the last reports of linked nodes, for placement. Returns the same array until something changes. */
  snapshot(): readonly NodeSnapshot[] {
    return (this.#snapshots ??= [...this.#nodes.values()].flatMap(({ snapshot }) => snapshot ?? []))
  }

  /** Sends a request to a model on a node; no handler is called before this returns. */
  request(nodeId: string, request: LinkRequest, handlers: LinkHandlers): LinkStream {
    const node = this.#nodes.get(nodeId)
    if (node) return node.link.request(request, handlers)
    queueMicrotask(() =>
      handlers.onError(new LinkError('link_lost', 'the node is not linked to this gateway')),
    )
    return { cancel() {}, pause() {}, resume() {} }
  }

  /**
   * Sends a request and resolves to the complete response; rejects with a `LinkError`, or with `no_capacity` if memory
   * is short.
   */
  ask(nodeId: string, request: LinkRequest): Promise<NodeResponse> {
    const ask = (handlers: LinkHandlers) => this.request(nodeId, request, handlers)
    return new BufferedResponse(this.memory, request.accountId, ask).answer
  }

  /** Returns the account that owns a linked node. */
  ownerOf(nodeId: string): string | undefined {
    return this.#nodes.get(nodeId)?.accountId
  }

  /** Returns a linked node's runtime version. */
  versionOf(nodeId: string): string | undefined {
    return this.#nodes.get(nodeId)?.inventory?.version
  }

  /** Sends a job's cancellation or pause to every linked node, because any of them may be running the job. */
  cancelJob(jobId: string, { pause = false } = {}): void {
    const meta = pause ? { paused_job_id: jobId } : { job_id: jobId }
    for (const { link } of this.#nodes.values()) link.cancelWork(meta)
  }

  /** Sends a task's cancellation to every linked node, because any of them may be running the task. */
  cancelTask(taskId: string): void {
    for (const { link } of this.#nodes.values()) link.cancelWork({ task_id: taskId })
  }

  /** Notifies a node, if linked, that its work on a stage or its payload is no longer needed. */
  cancelOn(nodeId: string, meta: Pick<CancelMeta, 'task_id' | 'attempt' | 'edge'>): void {
    this.#nodes.get(nodeId)?.link.cancelWork(meta)
  }

  /** Returns the keys of all models that each node reports, including those that we don't pass on. */
  reportedModels(): Map<string, readonly string[]> {
    return new Map([...this.#nodes].map(([nodeId, { reported }]) => [nodeId, reported]))
  }

  /** Instructs a node, if it is linked, to delete the files of deleted models. */
  forget(nodeId: string, modelKeys: readonly string[]): void {
    this.#nodes.get(nodeId)?.link.hello({ forget: [...modelKeys] })
  }

  /** Registers a listener for changes to models on linked nodes; returns a function that removes it. */
  onModel(listener: ModelListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  disconnect(nodeId: string, reason: string): void {
    this.#nodes.get(nodeId)?.link.close(reason)
  }

  /**
   * Retires all links because the gateway is stopping: each closes when its last request ends, and nodes use the other
   * gateways.
   */
  retire(): void {
    for (const { link } of this.#nodes.values()) link.retire()
  }

  /**
   * Returns whether a node may link again. We limit the rate because every link is recorded in the database, and a node
   * whose link was closed for a protocol error reconnects at once.
   */
  mayLink(nodeId: string): boolean {
    let known = this.#linking.get(nodeId)
    if (!known) this.#linking.set(nodeId, (known = new TokenBucket(LINKS)))
    return known.take()
  }

  /** Accepts a socket whose handshake this node signed. */
  accept(nodeId: string, socket: WebSocket, accountId: string, linkVersion = 1): void {
    const earlier = this.#nodes.get(nodeId)
    const link = new NodeLink(nodeId, socket, this.#wheel, {
      onHello: (hello) => this.#hello(node, hello),
      onState: (state) => this.#state(node, state),
      onLogs: (entries, ack) =>
        this.#store(node, ack, () => nodeReportRepository.insertJobLogs(this.#db, nodeId, entries)),
      onMetrics: (entries, ack) =>
        this.#store(node, ack, () => nodeReportRepository.insertJobEpochs(this.#db, nodeId, entries)),
      onUnknown: (type) => this.#unknown(node, type),
      onClose: (reason) => this.#lost(node, reason),
      onFault: (err) => emit(this.#log, 'link.request_failed', { err, node_id: nodeId }),
    })
    const node = createLinkedNode(link, accountId)
    this.#nodes.set(nodeId, node)
    earlier?.link.close('replaced by a newer link')
    emit(this.#log, 'link.accepted', { node_id: nodeId, link_version: linkVersion })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearInterval(timer)
    for (const { link } of this.#nodes.values()) link.close('the gateway is stopping')
    this.#wheel[Symbol.dispose]()
    await this.#states[Symbol.asyncDispose]()
  }

  /** Records a node's newest hello, one at a time. */
  #hello(node: LinkedNode, { inventory }: HelloMeta): void {
    if (!inventory) return
    node.inventory = boundedInventory(inventory)
    if (node.recording) return
    node.recording = true
    void this.#record(node).finally(() => (node.recording = false))
  }

  async #record(node: LinkedNode): Promise<void> {
    let recorded: NodeInventory | undefined
    try {
      while (node.inventory && recorded !== node.inventory && !node.link.closed) {
        const { inventory } = node
        const [row] = await Promise.all([
          nodeRepository.recordHello(this.#db, node.link.nodeId, inventory),
          this.#refreshGateways(),
        ])
        if (!row) return node.link.close('this node has been removed')
        recorded = inventory
        const decided = decisionsOf(row)
        node.decided = decided
        node.link.hello({ gateways: [...this.gateways], ...helloOf(decided) })
        if (node.report) this.#report(node, node.report)
      }
    } catch (err) {
      emit(this.#log, 'node.record_failed', { err, node_id: node.link.nodeId })
      node.link.close('try again')
    }
  }

  async #syncDecisions(): Promise<void> {
    let rows: NodeDecision[] | undefined
    while (rows === undefined && !this.#closed) {
      this.#isOutdated = false
      if (this.#nodes.size === 0) return
      rows = await nodeRepository
        .nodeDecisions(this.#db, [...this.#nodes.keys()])
        .catch(async (err: unknown) => {
          emit(this.#log, 'node.decisions_read_failed', { err })
          await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS))
          return undefined
        })
    }
    for (const row of rows ?? []) {
      const node = this.#nodes.get(row.id)
      if (row.status === 'removed') node?.link.close('this node has been removed')
      else if (node?.decided) this.#decide(node, node.decided, decisionsOf(row))
    }
  }

  #decide(node: LinkedNode, before: NodeDecisions, decided: NodeDecisions): void {
    const { draining, sharing, ordered } = decided
    node.decided = decided
    const isTold = before.draining === draining && before.sharing === sharing
    const hello = helloOf(decided)
    if (!isDeepStrictEqual(helloOf(before), hello)) node.link.hello(hello)
    const added = ordered.difference(before.ordered)
    if (isTold && added.size === 0 && before.ordered.size === ordered.size) return
    if (!node.report) return
    this.#report(node, node.report, { soon: true })
    // The node may have reported the model before its order arrived here.
    for (const model of node.report.models) if (added.has(model.model_key)) this.#announce(node, model)
  }

  #state(node: LinkedNode, { report, model }: StateBody): void {
    if (report) this.#history.note(node.link.nodeId, report)
    if (report) this.#report(node, report)
    if (model) this.#model(node, model)
  }

  #report(node: LinkedNode, report: NodeReport, { soon = false } = {}): void {
    const { inventory, decided, accountId } = node
    node.reported = reportedKeys(report.models)
    const reported = this.#bounded(node, report.models)
    node.report = { ...report, models: reported }
    if (!inventory || !decided) return
    this.#join(node, reported, decided)
    const models = reported.filter(({ model_key }) => decided.ordered.has(model_key))
    const isFirst = node.snapshot === undefined
    const snapshot = snapshotOf({ nodeId: node.link.nodeId, accountId, inventory, decided, report, models })
    this.#put(node, snapshot, { soon: soon || isFirst })
  }

  #model(node: LinkedNode, reported: NodeModel): void {
    const [model] = boundedModels([reported])
    if (!model) return
    const { report, snapshot, decided } = node
    const isGone = model.state === 'cold' && model.error === undefined
    const withIt = (models: readonly NodeModel[]) => {
      const others = models.filter(({ model_key }) => model_key !== model.model_key)
      const all = isGone ? others : [...others, model]
      return all.length > MAX_MODELS ? this.#bounded(node, all) : all
    }
    if (report) node.report = { ...report, models: withIt(report.models) }
    if (!decided?.ordered.has(model.model_key)) {
      if (decided && !isGone) this.#join(node, [model], decided)
      return
    }
    if (snapshot) this.#put(node, { ...snapshot, models: withIt(snapshot.models) }, { soon: true })
    this.#announce(node, model)
  }

  /**
   * Adds orders for models that a node loaded by itself, if its account may use them. The result arrives like any other
   * decision.
   */
  #join(node: LinkedNode, models: readonly NodeModel[], { ordered }: NodeDecisions): void {
    const room = MAX_ASKED - node.asked.size
    const fresh = models
      .map(({ model_key }) => model_key)
      .filter((modelKey) => !ordered.has(modelKey) && !node.asked.has(modelKey))
      .slice(0, room)
    if (fresh.length === 0) return
    for (const modelKey of fresh) node.asked.add(modelKey)
    const { nodeId } = node.link
    modelOrderRepository.joinOwnLoads(this.#db, nodeId, fresh).catch((err: unknown) => {
      emit(this.#log, 'node.load_check_failed', { err, node_id: nodeId })
      for (const modelKey of fresh) node.asked.delete(modelKey)
    })
  }

  #announce(node: LinkedNode, model: NodeModel): void {
    for (const listener of this.#listeners) listener(node.link.nodeId, model)
  }

  #bounded(node: LinkedNode, models: readonly NodeModel[]): NodeModel[] {
    const bounded = boundedModels(models)
    if (bounded.length < models.length && !node.isCut) {
      node.isCut = true
      emit(this.#log, 'node.report_cut', {
        node_id: node.link.nodeId,
        models: models.length,
        kept: bounded.length,
      })
    }
    return bounded
  }

  #put(node: LinkedNode, snapshot: NodeSnapshot, { soon }: { soon: boolean }): void {
    node.snapshot = snapshot
    this.placement.put(snapshot)
    this.#snapshots = undefined
    this.#states.note(snapshot, { soon: soon && node.soon.take() })
  }

  #unknown(node: LinkedNode, type: number): void {
    node.unknownFrames += 1
    if (node.unknownFrames > 1) return
    emit(this.#log, 'link.unknown_frame', { node_id: node.link.nodeId, frame_type: type })
  }

  #lost(node: LinkedNode, reason: string): void {
    const { nodeId } = node.link
    if (this.#nodes.get(nodeId) !== node) return
    this.#nodes.delete(nodeId)
    this.placement.remove(nodeId)
    this.#snapshots = undefined
    const unknown = node.unknownFrames > 0 ? { unknown_frames: node.unknownFrames } : {}
    emit(this.#log, 'link.closed', { node_id: nodeId, reason, ...unknown })
    if (!this.#closed) this.#states.drop(nodeId)
  }

  /**
   * Acknowledges a batch once it is stored. Waits while the database fails, but drops bad data, which the node would
   * otherwise resend forever.
   */
  async #store(
    node: LinkedNode,
    { ackedThrough, bytes }: BatchAck,
    write: () => Promise<void>,
  ): Promise<void> {
    while (!this.#closed && this.#nodes.get(node.link.nodeId) === node) {
      try {
        await write()
        // Delaying the acknowledgement slows the node down, because the node waits for it before sending the next
        // batch.
        const wait = node.spooled.spend(bytes)
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
        return node.link.acknowledge(ackedThrough)
      } catch (err) {
        emit(this.#log, 'job.report_store_failed', { err, node_id: node.link.nodeId })
        if (isBadRow(err)) return node.link.acknowledge(ackedThrough)
        await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS))
      }
    }
  }

  async #refreshGateways(): Promise<void> {
    const gateways = await nodeRepository.listGatewayUrls(this.#db).catch(() => this.gateways)
    if (gateways.join() === this.gateways.join()) return
    this.gateways = gateways
    for (const { link } of this.#nodes.values()) link.hello({ gateways: [...gateways] })
  }
}
