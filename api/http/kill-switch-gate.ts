import { setTimeout as sleep } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import * as killSwitchRepository from '../../db/repositories/platform/kill-switch.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import type { KillSwitchView } from '../gateway/caches/kill-switch.ts'

/** A gateway that has not read the switch for this long may have missed its activation. */
const MAX_VIEW_AGE_MS = 2_000
/**
 * Reading a very large body can block the process and delay the next read of the switch. A request then waits this long
 * for that read.
 */
const CATCH_UP_TIMEOUT_MS = 1_000
const POLL_INTERVAL_MS = 20

const isStale = ({ seenAt }: KillSwitchView, now: number): boolean => now - seenAt > MAX_VIEW_AGE_MS

/** Calls `checkKillSwitch`: at once if the view is recent, otherwise after a short wait for the next read. */
export function passKillSwitch(view: KillSwitchView): Promise<void> | undefined {
  if (!view.active && isStale(view, performance.now())) return catchUp(view)
  checkKillSwitch(view)
  return undefined
}

async function catchUp(view: KillSwitchView): Promise<void> {
  for (
    const until = performance.now() + CATCH_UP_TIMEOUT_MS;
    performance.now() < until && isStale(view, performance.now());
  ) {
    await sleep(POLL_INTERVAL_MS)
  }
  checkKillSwitch(view)
}

/**
 * The last check before a transaction commits new work: a request that passed the gate may have waited for a lock since
 * then. Once the activation of the switch is committed, no transaction that calls this commits.
 */
export async function passKillSwitchIn(trx: Transaction<Database>): Promise<void> {
  const row = await killSwitchRepository.shareKillSwitch(trx)
  if (row.active) throw stopped(row)
}

const stopped = ({ reason }: { reason: string | null }) =>
  new ApiError('operator_kill_switch', 'new work is stopped by an operator', {
    details: { reason },
    headers: { 'retry-after': '30' },
  })

/** Rejects new work while the kill switch is active, or while this gateway does not know its state. */
export function checkKillSwitch(view: KillSwitchView, now = performance.now()): void {
  if (view.active) throw stopped(view)
  if (isStale(view, now)) {
    throw new ApiError(
      'operator_kill_switch',
      'new work is held until the state of the kill switch is known',
      {
        details: { reason: null },
        headers: { 'retry-after': '2' },
      },
    )
  }
}
