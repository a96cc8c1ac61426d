import { randomUUID } from 'node:crypto'
import { NativeConnection } from '@temporalio/worker'
import type { ControlClient } from '../../node-runtime/control/client.ts'
import type { Identity } from '../../node-runtime/control/identity.ts'
import {
  revocationOf,
  type NodeRevokedError,
  successorOf,
} from '../../node-runtime/control/node-revocation.ts'
import { retryUntilAborted } from '../../platform/async/retry.ts'
import type { Config } from '../../platform/config.ts'
import { readPem } from '../../platform/config/pem.ts'
import type { Logger } from '../../platform/log.ts'
import { reasonOf } from '../../platform/reason.ts'
import type { GateFault, TemporalCredential } from '../../schemas/nodes/node.ts'
import { emit } from './events.ts'
import { GateWatch, MAX_REASON } from './gate-watch.ts'

export interface GateAccessOptions {
  config: Config
  identity: Identity
  control: ControlClient
  log: Logger
  /** Called when the platform has dismissed this node. */
  onDismissed: (why: NodeRevokedError) => void
  /** Called with the connection to another gate; resolves once the previous connection may be closed. */
  onMoved: (connection: NativeConnection) => Promise<void>
  /** Called with a fault when access to Temporal is lost, and with undefined once it is back. */
  onFault: (fault: GateFault | undefined) => void
}

const CONNECT_DELAY_MS = { first: 100, longest: 2_000 }
/** The bounds of the interval between credential renewals, and the pause after a failure. */
const RENEW_INTERVAL_MS = { least: 5_000, most: 240_000, afterFailure: 5_000 }
/**
 * The shortest interval between requests for a credential after lost links; the response shows whether the node has
 * been dismissed.
 */
const RENEW_RETRY_DELAY_MS = 2_000
const TIMEOUT_MS = 10_000
/** The pauses between requests for the address of a gate that does not respond. */
const LOOKUP_DELAY_MS = { first: 2_000, longest: 20_000 }
/** The interval for checking whether this machine joined again as another node. */
const IDENTITY_CHECK_INTERVAL_MS = 2_000

/** A connection to a gate, and the gate's address. */
interface Gate {
  connection: NativeConnection
  address: string
  tls: boolean
}

/**
 * The node's access to Temporal: a connection to the gate, and a credential for it. Any gateway issues a credential in
 * exchange for the node's signature; the node renews it long before it expires. The response also reports that the node
 * was removed, or that the gate has moved.
 */
export class GateAccess implements AsyncDisposable {
  readonly namespace: string
  readonly #options: GateAccessOptions
  readonly #instanceId: string
  readonly #identityTimer: NodeJS.Timeout
  readonly #watch: GateWatch
  #gate: Gate
  #timer: NodeJS.Timeout | undefined
  #renewal: Promise<void> | undefined
  #renewedAt = performance.now()
  /** When the node may next request the gate's address, and the pause before that. */
  #asking = { pauseMs: 0, at: 0 }
  #isClosed = false

  private constructor(
    options: GateAccessOptions,
    gate: Gate,
    credential: TemporalCredential,
    instanceId: string,
  ) {
    this.#options = options
    this.#instanceId = instanceId
    this.#gate = gate
    this.#identityTimer = setInterval(() => void this.#checkIdentity(), IDENTITY_CHECK_INTERVAL_MS)
    this.namespace = credential.namespace
    this.#watch = new GateWatch({
      gate: () => this.#gate,
      log: options.log,
      onFault: (fault) => {
        options.onFault(fault)
        if (fault) this.#askWhereItIs()
        else this.#asking = { pauseMs: 0, at: 0 }
      },
    })
    this.#schedule(untilRenewal(credential))
  }

  /**
   * Waits for a gateway that knows the gate, then for the gate. Throws a `DismissedError` if the node was dismissed.
   */
  static async open(options: GateAccessOptions, signal: AbortSignal): Promise<GateAccess> {
    const { control, config, log, onFault } = options
    const instanceId = randomUUID()
    let isStart = true
    let address: string | null = null
    const connect = async () => {
      const body = { instance_id: instanceId, is_start: isStart }
      const credential = await control.temporalCredential(body, { signal, patienceMs: 0 })
      isStart = false
      address = credential.address
      const gate = await connectTo(credential, config)
      onFault(undefined)
      return new GateAccess(options, gate, credential, instanceId)
    }
    const since = new Date().toISOString()
    return retryUntilAborted(connect, {
      ...CONNECT_DELAY_MS,
      signal,
      onFailure(err, failuresBefore) {
        const dismissal = revocationOf(err, config.HEARTH_NODE_DIR)
        if (dismissal) throw dismissal
        const reason = reasonOf(err).slice(0, MAX_REASON)
        onFault({ address, since, reason })
        if (failuresBefore % 10 === 0) emit(log, 'gate.awaited', { reason })
      },
    })
  }

  /** The connection to the gate, until `onMoved` is called with another. */
  get connection(): NativeConnection {
    return this.#gate.connection
  }

  /** The address of the current gate. */
  get address(): string {
    return this.#gate.address
  }

  /** Requests a new credential soon, which also shows whether this node was dismissed; never two at once. */
  renewSoon(): void {
    if (this.#isClosed || this.#renewal) return
    const wait = Math.max(0, this.#renewedAt + RENEW_RETRY_DELAY_MS - performance.now())
    this.#schedule(wait)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    clearInterval(this.#identityTimer)
    this.#watch.close()
    await this.connection.close()
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#renewedAt = performance.now()
      this.#renewal = this.#renew().finally(() => (this.#renewal = undefined))
    }, ms)
  }

  async #renew(): Promise<void> {
    const { config, control, log, onDismissed } = this.#options
    try {
      const body = { instance_id: this.#instanceId, is_start: false }
      const credential = await control.temporalCredential(body, { patienceMs: TIMEOUT_MS })
      if (this.#isClosed) return
      await this.connection.setMetadata(metadataOf(credential.token))
      const { address, tls } = credential
      if (address !== this.#gate.address || tls !== this.#gate.tls) await this.#moveTo(credential)
      this.#schedule(untilRenewal(credential))
    } catch (err) {
      const dismissal = revocationOf(err, config.HEARTH_NODE_DIR)
      if (dismissal) return onDismissed(dismissal)
      emit(log, 'gate.credential_failed', { reason: reasonOf(err) })
      this.#schedule(RENEW_INTERVAL_MS.afterFailure)
    }
  }

  /** Moves to another gate. If that gate does not respond, stays and tries again with the next credential. */
  async #moveTo(credential: TemporalCredential): Promise<void> {
    const { config, log, onMoved } = this.#options
    const left = this.#gate
    const gate = await connectTo(credential, config)
    if (this.#isClosed) return gate.connection.close()
    this.#gate = gate
    const isLeft = onMoved(gate.connection)
    emit(log, 'gate.moved', { from: left.address, to: gate.address })
    this.#watch.lookNow()
    await isLeft
    await left.connection.close()
  }

  /** Requests the gate's address, which may have changed. Backs off, because a whole pool may have lost the gate. */
  #askWhereItIs(): void {
    const now = performance.now()
    if (now < this.#asking.at) return
    const pauseMs = Math.min(
      LOOKUP_DELAY_MS.longest,
      Math.max(LOOKUP_DELAY_MS.first, this.#asking.pauseMs * 2),
    )
    this.#asking = { pauseMs, at: now + pauseMs * (0.5 + Math.random() / 2) }
    this.renewSoon()
  }

  async #checkIdentity(): Promise<void> {
    const { config, identity, onDismissed } = this.#options
    const successor = await successorOf(config.HEARTH_NODE_DIR, identity).catch(() => undefined)
    if (successor && !this.#isClosed) onDismissed(successor)
  }
}

async function connectTo({ address, tls, token }: TemporalCredential, config: Config): Promise<Gate> {
  const { HEARTH_GATE_TLS_CA: ca } = config
  const serverRootCACertificate = ca === undefined ? undefined : readPem('HEARTH_GATE_TLS_CA', ca)
  const connection = await NativeConnection.connect({
    address,
    tls: tls && { ...(serverRootCACertificate && { serverRootCACertificate }) },
    metadata: metadataOf(token),
  })
  return { connection, address, tls }
}

const metadataOf = (token: string) => ({ authorization: `Bearer ${token}` })

/** Clocks may differ by minutes, so the result is clamped. */
function untilRenewal({ expires_at }: TemporalCredential): number {
  const half = (Date.parse(expires_at) - Date.now()) / 2
  return Math.min(RENEW_INTERVAL_MS.most, Math.max(RENEW_INTERVAL_MS.least, half))
}
