import {
  type Metadata,
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import proto from '@temporalio/proto'
import type { NodePermissions } from '../../db/repositories/nodes/permissions.ts'
import { mayPoll as mayEverPoll } from '../../domain/placement/node-queues.ts'
import type { Logger } from '../../platform/log.ts'
import type { Credential, NodeCredentials } from '../../platform/node-credentials.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'
import { admission } from './admission.ts'
import type { DispatchRecorder } from './dispatch.ts'
import { emit } from './events.ts'
import { OpenCalls } from './open-polls.ts'
import type { NodePermissionCache } from './permission-cache.ts'
import { denied, Refusal, removed } from './refusal.ts'
import { asBytes, MAX_MESSAGE_BYTES, type Upstream, WORKFLOW_SERVICE } from './upstream.ts'
import { Message, WireError } from './wire.ts'

export interface GateOptions {
  upstream: Upstream
  credentials: NodeCredentials
  permissions: NodePermissionCache
  handOvers: DispatchRecorder
  log: Logger
  /** How long the gate holds a forbidden poll before refusing it. */
  holdMs: number | undefined
}

type Call = ServerUnaryCall<Buffer, Buffer>
type Handler = (call: Call, node: NodePermissions) => Promise<Buffer>

const BEARER = /^Bearer (.+)$/i
/** A node may poll a queue as soon as the platform allows it, and the gate's cache may lag behind. */
const HOLD_TIMEOUT_MS = 20_000
const RECHECK_INTERVAL_MS = 1_000
/** The maximum number of streams on one connection; a node has one connection. */
const MAX_STREAMS = 1_000
/** Temporal answers polls within a minute, with or without work. */
const CALL_TIMEOUT_MS = 90_000
/** Nodes respond with ids and numbers only; their results go to the object store. */
const MAX_REQUEST_BYTES = 1024 * 1024
const HEALTH_CHECK = '/grpc.health.v1.Health/Check'
const EMPTY = Buffer.alloc(0)

/** Field numbers of polls, their responses, and nodes' responses; they are the same in all four requests. */
const POLL = { namespace: 1, taskQueue: 2, taskToken: 1 } as const
const QUEUE = { name: 1 } as const
const ANSWER = { taskToken: 1, namespace: 4 } as const

/**
 * The part of Temporal's API that nodes may use: polls of their own queues, and responses to the work they got. The
 * gate refuses every other method by name, so that a node can never list, start, signal or query workflows.
 */
export class GateServer {
  readonly #options: GateOptions
  readonly #calls = new OpenCalls()
  readonly #server: Server

  constructor(options: GateOptions) {
    this.#options = options
    const nodeOf = (metadata: Metadata) => this.#credentialOf(metadata).nodeId
    this.#server = new Server({
      'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
      'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
      'grpc.max_concurrent_streams': MAX_STREAMS,
      'grpc.keepalive_time_ms': 30_000,
      'grpc.keepalive_timeout_ms': 10_000,
      interceptors: [admission(nodeOf, this.#calls, (path) => path === HEALTH_CHECK)],
    })
    const answer: Handler = (call, node) => this.#answer(call, node)
    const passed: Record<string, Handler> = {
      GetSystemInfo: (call) => this.#pass(call),
      DescribeNamespace: (call) => this.#describeNamespace(call),
      PollActivityTaskQueue: (call, node) => this.#poll(call, node),
      RespondActivityTaskCompleted: answer,
      RespondActivityTaskFailed: answer,
      RespondActivityTaskCanceled: answer,
      RecordActivityTaskHeartbeat: answer,
      // The call would end waiting polls, but this node's polls end with its connection anyway.
      ShutdownWorker: () => Promise.resolve(EMPTY),
    }
    for (const [service, methods] of Object.entries(methodsOfTemporal())) {
      for (const method of methods) {
        const handler = service === WORKFLOW_SERVICE ? passed[method] : undefined
        this.#register(`/${service}/${method}`, handler ?? refuseMethod(method))
      }
    }
    this.#server.register(HEALTH_CHECK, this.#health, asBytes, asBytes, 'unary')
    this.#options.permissions.onChange(() => this.#calls.recheck())
  }

  /** Starts listening and resolves to the port; rejects if the address is not available. */
  listen(address: string, credentials = ServerCredentials.createInsecure()): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    this.#server.bindAsync(address, credentials, (err, port) => (err ? reject(err) : resolve(port)))
    return promise
  }

  /** Ends every call; nodes resume their polls at another gate, or when this one is back. */
  close(): void {
    this.#server.forceShutdown()
  }

  #register(path: string, handler: Handler): void {
    const serve = (call: Call, done: sendUnaryData<Buffer>) => void this.#serve(call, done, handler)
    this.#server.register(path, serve, asBytes, asBytes, 'unary')
  }

  async #serve(call: Call, done: sendUnaryData<Buffer>, handler: Handler): Promise<void> {
    try {
      done(null, await handler(call, await this.#authenticate(call)))
    } catch (err) {
      done(this.#serviceError(err))
    }
  }

  #serviceError(err: unknown): Pick<ServiceError, 'code' | 'details'> {
    if (err instanceof Refusal) return { code: err.code, details: err.message }
    if (err instanceof WireError) return { code: status.INVALID_ARGUMENT, details: err.message }
    const { code, details } = err as Partial<ServiceError>
    if (typeof code === 'number') return { code, details: details ?? '' }
    emit(this.#options.log, 'gate.call_failed', { err })
    return { code: status.INTERNAL, details: 'the gate failed' }
  }

  /** Returns the credential in a call's headers; throws a `Refusal`. */
  #credentialOf(metadata: Metadata): Credential {
    const { credentials } = this.#options
    const [, token = ''] = BEARER.exec(String(metadata.get('authorization')[0] ?? '')) ?? []
    const credential = credentials.read(token)
    if (!credential) throw new Refusal(status.UNAUTHENTICATED, "the gate needs a node's credential")
    if (credential.expiresAt <= Date.now()) {
      throw new Refusal(
        status.UNAUTHENTICATED,
        'this credential has expired: request a new one from a gateway',
      )
    }
    return credential
  }

  async #authenticate({ metadata }: Call): Promise<NodePermissions> {
    const { permissions } = this.#options
    const { nodeId } = this.#credentialOf(metadata)
    const node = permissions.cached(nodeId) ?? (await permissions.refresh(nodeId).catch(databaseAway))
    if (!node || node.status === 'removed') throw removed()
    return node
  }

  #refusalsOf(metadata: Metadata): string | undefined {
    try {
      return this.#calls.refusals(this.#credentialOf(metadata).nodeId)
    } catch (err) {
      // A container's health check has no credential.
      if (err instanceof Refusal) return undefined
      throw err
    }
  }

  #checkNamespace(namespace: string): void {
    if (namespace !== this.#options.upstream.namespace) {
      throw denied(`nodes have no access to the namespace ${JSON.stringify(namespace.slice(0, 200))}`)
    }
  }

  async #pass(call: Call): Promise<Buffer> {
    return this.#options.upstream.call(methodOf(call), call.request, deadlineOf(call)).answer
  }

  /**
   * Returns only the namespace's name and existence: no text from operators, and no capability that this gate lacks.
   */
  async #describeNamespace(call: Call): Promise<Buffer> {
    const { upstream } = this.#options
    this.#checkNamespace(new Message(call.request).text(1))
    const request = DescribeNamespaceRequest.encode({ namespace: upstream.namespace }).finish()
    const { namespaceInfo } = DescribeNamespaceResponse.decode(
      await upstream.call('DescribeNamespace', Buffer.from(request), deadlineOf(call)).answer,
    )
    const { name, state, id } = namespaceInfo ?? {}
    const info = { name: name ?? '', state: state ?? 0, id: id ?? '' }
    return Buffer.from(DescribeNamespaceResponse.encode({ namespaceInfo: info }).finish())
  }

  /** Forwards a response or a heartbeat for work that was handed to this node. */
  async #answer(call: Call, { id }: NodePermissions): Promise<Buffer> {
    const { credentials, upstream } = this.#options
    const request = new Message(call.request)
    this.#checkNamespace(request.text(ANSWER.namespace))
    const taskToken = credentials.unbind(id, request.bytes(ANSWER.taskToken))
    if (!taskToken) throw denied('this work was not handed to this node')
    const bytes = request.with(ANSWER.taskToken, taskToken)
    return upstream.call(methodOf(call), bytes, deadlineOf(call)).answer
  }

  /** Polls one queue for a node, for as long as the node waits and may poll that queue. */
  async #poll(call: Call, { id }: NodePermissions): Promise<Buffer> {
    const { credentials, handOvers, permissions, upstream } = this.#options
    // Without notifications, the cache may be stale, so read this node's row.
    if (!permissions.isFresh) await permissions.refresh(id).catch(databaseAway)
    const request = new Message(call.request)
    this.#checkNamespace(request.text(POLL.namespace))
    const queue = new Message(request.bytes(POLL.taskQueue)).text(QUEUE.name)
    await this.#untilAllowed(call, id, queue)

    // The request contains only the identity and the queue, so that a node cannot set options that slow the queue down
    // for others.
    const bytes = PollActivityTaskQueueRequest.encode({
      namespace: upstream.namespace,
      taskQueue: { name: queue, kind: NORMAL },
      identity: `node ${id}`,
    }).finish()
    const pendingPoll = upstream.call('PollActivityTaskQueue', Buffer.from(bytes), deadlineOf(call))
    const isAllowed = () => isPermitted(permissions, id, queue)
    const close = this.#calls.add({ nodeId: id, queue, recheck: () => isAllowed() || pendingPoll.cancel() })
    call.on('cancelled', () => pendingPoll.cancel())
    try {
      const answer = new Message(await pendingPoll.answer)
      const taskToken = answer.bytes(POLL.taskToken)
      if (taskToken.length === 0) return EMPTY
      const isWanted = () => !call.cancelled && isAllowed()
      if (!(await handOvers.record({ nodeId: id, answer, isWanted }))) return this.#nothing(id)
      return answer.with(POLL.taskToken, credentials.bind(id, taskToken))
    } catch (err) {
      if (!isAllowed()) return this.#nothing(id)
      throw err
    } finally {
      close()
    }
  }

  /** Returns an empty poll response, or refuses a removed node. If the poll became forbidden, the next one is held. */
  #nothing(nodeId: string): Buffer {
    if (this.#options.permissions.cached(nodeId)?.status === 'removed') throw removed()
    return EMPTY
  }

  /**
   * Holds a forbidden poll. After an immediate refusal, the SDK would either retry immediately, or poll too late when
   * the queue becomes allowed a moment later.
   */
  async #untilAllowed(call: Call, nodeId: string, queue: string): Promise<void> {
    const { permissions, holdMs = HOLD_TIMEOUT_MS } = this.#options
    const deadline = performance.now() + holdMs
    while (!isPermitted(permissions, nodeId, queue)) {
      const node = await permissions.refresh(nodeId).catch(databaseAway)
      if (!node || node.status === 'removed') throw removed()
      if (mayPoll(node, queue)) return
      if (call.cancelled || performance.now() > deadline) {
        throw denied(`this node may not take work from ${JSON.stringify(queue.slice(0, 200))}`)
      }
      await changeWithin(permissions, call, Math.min(RECHECK_INTERVAL_MS, holdMs))
    }
  }

  /** Also reports refused calls to the node that made them, because the SDK retries those without an error. */
  readonly #health = ({ metadata }: Call, done: sendUnaryData<Buffer>) => {
    const refusals = this.#refusalsOf(metadata)
    // The SDK retries a call that ends with RESOURCE_EXHAUSTED, so the node would not get the reason.
    if (refusals !== undefined) return done({ code: status.FAILED_PRECONDITION, details: refusals })
    const { SERVING, NOT_SERVING } = HealthStatus
    done(null, Buffer.of(0x08, this.#options.permissions.isFresh ? SERVING : NOT_SERVING))
  }
}

const HealthStatus = { SERVING: 1, NOT_SERVING: 2 } as const
const { DescribeNamespaceRequest, DescribeNamespaceResponse, PollActivityTaskQueueRequest } =
  proto.temporal.api.workflowservice.v1
const NORMAL = proto.temporal.api.enums.v1.TaskQueueKind.TASK_QUEUE_KIND_NORMAL

/** Caps a deadline that a node omitted or set too far away, because Temporal refuses such calls. */
const deadlineOf = (call: Call): number => Math.min(Number(call.getDeadline()), Date.now() + CALL_TIMEOUT_MS)

const methodOf = (call: Call): string => call.getPath().slice(call.getPath().lastIndexOf('/') + 1)

const refuseMethod =
  (method: string): Handler =>
  () =>
    Promise.reject(denied(`nodes may not call ${method}`))

function databaseAway(): never {
  throw new Refusal(status.UNAVAILABLE, 'the gate cannot reach the database to check this node; try again')
}

const isPermitted = (permissions: NodePermissionCache, nodeId: string, queue: string): boolean => {
  const node = permissions.cached(nodeId)
  return node !== undefined && mayPoll(node, queue)
}

/** Waits for a change of node permissions, the end of the call, or the timeout. */
function changeWithin(permissions: NodePermissionCache, call: Call, ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const forget = permissions.onChange(resolve)
  call.on('cancelled', resolve)
  return promise.finally(() => {
    clearTimeout(timer)
    forget()
    call.off('cancelled', resolve)
  })
}

/** Returns every method of Temporal's own services, by service. */
function methodsOfTemporal(): Record<string, string[]> {
  const { workflowservice, operatorservice } = proto.temporal.api
  const methods = (service: unknown) => Object.keys((service as { methods: object }).methods)
  return {
    [WORKFLOW_SERVICE]: methods(workflowservice.v1.WorkflowService),
    'temporal.api.operatorservice.v1.OperatorService': methods(operatorservice.v1.OperatorService),
  }
}

/** Returns whether a node may poll a queue now: only its own queue while draining, and no queue once removed. */
function mayPoll(
  { id, account_id, status, sharing, hardware, ordered }: NodePermissions,
  queue: string,
): boolean {
  if (status === 'removed') return false
  if (status === 'draining') return queue === QUEUES.node(id)
  const poller = { nodeId: id, accountId: account_id, sharing, hardware, orderedModels: ordered }
  return mayEverPoll(poller, queue)
}
