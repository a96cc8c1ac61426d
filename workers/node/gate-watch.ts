import { status } from '@grpc/grpc-js'
import type { NativeConnection } from '@temporalio/worker'
import type { Logger } from '../../platform/log.ts'
import { reasonOf } from '../../platform/reason.ts'
import type { GateFault } from '../../schemas/nodes/node.ts'
import { emit } from './events.ts'

export interface GateWatchOptions {
  /** Returns the current gate, which may have changed by the next check. */
  gate: () => { connection: NativeConnection; address: string }
  log: Logger
  /** Called at each check that finds a fault, and with undefined at the first check without one. */
  onFault: (fault: GateFault | undefined) => void
}

const POLL_INTERVAL_MS = 5_000
/** Shorter than the SDK's own retries, which take about 10 s when nothing listens. */
const RESPONSE_TIMEOUT_MS = 5_000
const SERVING = 1
/** The longest reason that gateways accept. */
export const MAX_REASON = 300

/**
 * Checks periodically whether the gate responds. The SDK retries polls forever without reporting an error, and the
 * links to gateways don't show the state of the gate.
 */
export class GateWatch {
  readonly #options: GateWatchOptions
  #timer: NodeJS.Timeout
  #fault: GateFault | undefined
  #isClosed = false

  constructor(options: GateWatchOptions) {
    this.#options = options
    this.#timer = setTimeout(() => void this.#look(), POLL_INTERVAL_MS)
  }

  lookNow(): void {
    clearTimeout(this.#timer)
    if (!this.#isClosed) void this.#look()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #look(): Promise<void> {
    const { gate, log, onFault } = this.#options
    const { connection, address } = gate()
    const fault = await faultOf(connection)
    if (this.#isClosed) return
    // The node changed gates during the check, so the result doesn't apply to the current gate.
    if (gate().connection !== connection) return this.lookNow()
    const was = this.#fault
    if (fault) {
      const since = was?.since ?? new Date().toISOString()
      this.#fault = { address, since, ...fault }
      const { reason, refused } = fault
      if (!was) emit(log, refused ? 'gate.refused' : 'gate.unreachable', { address, reason })
    } else {
      this.#fault = undefined
      if (was) emit(log, 'gate.reached', { address })
    }
    if (was || this.#fault) onFault(this.#fault)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#look(), POLL_INTERVAL_MS)
  }
}

/**
 * Checks the health of the gate, not of Temporal behind it. The gate also reports calls from this node that it refused.
 */
async function faultOf(
  connection: NativeConnection,
): Promise<Pick<GateFault, 'reason' | 'refused'> | undefined> {
  try {
    const ask = () => connection.healthService.check({})
    const { status: health } = await connection.withDeadline(Date.now() + RESPONSE_TIMEOUT_MS, ask)
    return health === SERVING ? undefined : { reason: 'it responds, but cannot reach the database' }
  } catch (err) {
    const reason = reasonOf(err).slice(0, MAX_REASON)
    const { code } = err as { code?: number }
    return code === status.FAILED_PRECONDITION ? { reason, refused: true } : { reason }
  }
}
