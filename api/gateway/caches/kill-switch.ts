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
  /**
   * Start of the last successful read, in ms of this process's monotonic clock. A view older than 2 s admits no new
   * work.
   */
  readonly seenAt: number
}

export interface KillSwitchDeps {
  db: Kysely<Database>
  watch: Pick<CacheWatch, 'on'>
  log: Logger
  /** This process's row in `gateway`, in which it acknowledges versions of the switch. */
  gatewayId: string
}

/**
 * This gateway's view of the kill switch, read on every change notification and every 800 ms. The gateway applies a
 * state before acknowledging it. While the row can't be read, `seenAt` ages and the gate closes.
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

  /** Reads the switch. Never throws: a failed read keeps the old view, which then ages. */
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
    // A new gateway row starts at version 0, so acknowledge again after it was re-created.
    if (acknowledged !== null && acknowledged < version)
      await killSwitchRepository.acknowledgeKillSwitch(db, gatewayId, version)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
  }
}
