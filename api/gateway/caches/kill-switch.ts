import type { Kysely } from 'kysely'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import * as killSwitchRepository from '../../../db/repositories/platform/kill-switch.ts'
import type { Database } from '../../../db/tables.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

const POLL_INTERVAL_MS = 800

/** The kill switch as this gateway last saw it. */
export interface KillSwitchView {
  readonly active: boolean
  readonly reason: string | null
  /** When the last look began that succeeded, by the monotonic clock of this process in milliseconds; a view older than 2 s admits no new work. */
  readonly seenAt: number
}

export interface KillSwitchDeps {
  db: Kysely<Database>
  watch: Pick<CacheWatch, 'on'>
  log: Logger
  /** The row of `gateway` in which this process acknowledges versions of the switch. */
  gatewayId: string
}

/**
 * The kill switch as this gateway sees it: read on every notification of a change, and every 800 ms. A state is in
 * force here before it is acknowledged. While the row cannot be read, `seenAt` grows old and the gate closes.
 */
export class KillSwitch implements KillSwitchView, AsyncDisposable {
  active = false
  reason: string | null = null
  seenAt = Number.NEGATIVE_INFINITY
  readonly #deps: KillSwitchDeps
  readonly #loop: BackgroundLoop

  constructor(deps: KillSwitchDeps) {
    this.#deps = deps
    this.#loop = new BackgroundLoop(() => this.#read(), {
      everyMs: POLL_INTERVAL_MS,
      onError: (err) => emit(deps.log, 'kill_switch.read_failed', { err }),
    })
    deps.watch.on('kill_switch', () => void this.refresh())
  }

  /** Resolves after the first read. */
  start(): Promise<void> {
    return this.refresh()
  }

  /** Reads the switch. Never throws: a failed read leaves the view, which then grows old. */
  refresh(): Promise<void> {
    return this.#loop.run()
  }

  async #read(): Promise<void> {
    const { db, gatewayId } = this.#deps
    const startedAt = performance.now()
    const { active, reason, version, acknowledged } = await killSwitchRepository.readKillSwitchFor(
      db,
      gatewayId,
    )
    this.active = active
    this.reason = reason
    this.seenAt = startedAt
    // The acknowledgement is repeated when the gateway's row is new, because a row starts at version 0.
    if (acknowledged !== null && acknowledged < version)
      await killSwitchRepository.acknowledgeKillSwitch(db, gatewayId, version)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
  }
}
