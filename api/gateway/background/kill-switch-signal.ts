import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { KillSwitchRow } from '../../../db/tables/accounts.ts'
import type { Logger } from '../../../platform/log.ts'
import { searchAttributes } from '../../../platform/temporal.ts'
import { activateKillSwitch, deactivateKillSwitch } from '../../../workflows/contract/messages.ts'
import { killSwitchStart } from '../../../workflows/contract/starts.ts'
import { emit } from '../../events.ts'

const SIGNAL_TIMEOUT_MS = 5_000
const RETRY_DELAY_MS = 3_000

/**
 * Signals the kill switch workflow after a change over REST, retrying until Temporal accepts it. If this process exits
 * first, the reconciler sends the signal; the row is already in force.
 */
export class KillSwitchSignal implements AsyncDisposable {
  readonly #temporal: Client
  readonly #log: Logger
  readonly #closing = new AbortController()
  #latest: KillSwitchRow | undefined
  #publishing: Promise<void> | undefined

  constructor(temporal: Client, log: Logger) {
    this.#temporal = temporal
    this.#log = log
  }

  /** Sends the signal in the background; never throws. Only the latest of several changes has to arrive. */
  send(row: KillSwitchRow): void {
    this.#latest = row
    this.#publishing ??= this.#publish().finally(() => {
      this.#publishing = undefined
    })
  }

  async #publish(): Promise<void> {
    const { signal: closing } = this.#closing
    while (this.#latest && !closing.aborted) {
      const row = this.#latest
      try {
        await this.#temporal.withAbortSignal(closing, () =>
          this.#temporal.withDeadline(Date.now() + SIGNAL_TIMEOUT_MS, () => signal(this.#temporal, row)),
        )
        if (this.#latest === row) this.#latest = undefined
      } catch (err) {
        if (closing.aborted) return
        emit(this.#log, 'kill_switch.signal_failed', { err, version: row.version })
        await sleep(RETRY_DELAY_MS, undefined, { signal: closing }).catch(() => {})
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#publishing
  }
}

/**
 * A signal with a version makes the workflow read the row instead of writing it, so a late signal can't undo a change.
 */
const signal = (temporal: Client, { active, reason, actor, version }: KillSwitchRow): Promise<unknown> =>
  temporal.workflow.signalWithStart(killSwitchStart.workflow, {
    workflowId: killSwitchStart.workflowId,
    taskQueue: killSwitchStart.taskQueue,
    args: killSwitchStart.args,
    staticSummary: killSwitchStart.options.summary,
    typedSearchAttributes: searchAttributes(killSwitchStart.options.search),
    signal: active ? activateKillSwitch : deactivateKillSwitch,
    signalArgs: [{ reason: reason ?? '', actor: actor ?? '', version }],
  })
