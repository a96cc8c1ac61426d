import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '../../domain/errors.ts'
import type { KillSwitchView } from '../services.ts'

/** A gateway that has not seen the switch for this long may not know that it was thrown. */
const MAX_VIEW_AGE_MS = 2_000
/** Reading a very large body may keep the process from looking; then one look is waited for. */
const CATCH_UP_MS = 1_000
const LOOK_MS = 20

const isStale = ({ seenAt }: KillSwitchView, now: number): boolean => now - seenAt > MAX_VIEW_AGE_MS

/** `checkKillSwitch`, at once when the view is young enough, else after giving it a moment to become so. */
export function passKillSwitch(view: KillSwitchView): Promise<void> | undefined {
  if (!view.active && isStale(view, Date.now())) return catchUp(view)
  checkKillSwitch(view)
  return undefined
}

async function catchUp(view: KillSwitchView): Promise<void> {
  for (const until = Date.now() + CATCH_UP_MS; Date.now() < until && isStale(view, Date.now());) {
    await sleep(LOOK_MS)
  }
  checkKillSwitch(view)
}

/** Refuses new work while the kill switch is active, or while this gateway cannot tell (design 10.11). */
export function checkKillSwitch(view: KillSwitchView, now = Date.now()): void {
  if (view.active) {
    throw new ApiError('operator_kill_switch', 'new work is stopped by an operator', {
      details: { reason: view.reason },
      headers: { 'retry-after': '30' },
    })
  }
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
