import { status } from '@grpc/grpc-js'
import type { NativeConnection } from '@temporalio/worker'
import type { Logger } from '../../platform/log.ts'
import { reasonOf } from '../../platform/reason.ts'
import type { GateFault } from '../../schemas/node.ts'
import { emit } from './events.ts'

export interface GateWatchOptions {
  /** The gate of now, which may be another at the next look. */
  gate: () => { connection: NativeConnection; address: string }
  log: Logger
  /** Called at each look that finds a fault, and with nothing at the first one that finds none again. */
  onFault: (fault: GateFault | undefined) => void
}

const POLL_INTERVAL_MS = 5_000
/** The SDK tries again for some 10 s where nothing listens. */
const RESPONSE_TIMEOUT_MS = 5_000
const SERVING = 1
/** The longest reason that gateways take. */
export const MAX_REASON = 300

/**
 * Looks from time to time at whether the gate answers. The SDK repeats polls for ever and tells nobody, and links to
 * gateways say nothing of the gate.
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
    // A gate that was left meanwhile says nothing of the one that is used now.
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

/** Checks the health of the gate itself, not of Temporal behind it. The gate also reports calls of this node that it refused. */
async function faultOf(
  connection: NativeConnection,
): Promise<Pick<GateFault, 'reason' | 'refused'> | undefined> {
  try {
    const ask = () => connection.healthService.check({})
    const { status: health } = await connection.withDeadline(Date.now() + RESPONSE_TIMEOUT_MS, ask)
    return health === SERVING ? undefined : { reason: 'it answers, and cannot see the database' }
  } catch (err) {
    const reason = reasonOf(err).slice(0, MAX_REASON)
    const { code } = err as { code?: number }
    return code === status.FAILED_PRECONDITION ? { reason, refused: true } : { reason }
  }
}
