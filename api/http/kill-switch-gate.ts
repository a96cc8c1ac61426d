import { ApiError } from '../../domain/errors.ts'
import type { KillSwitchView } from '../services.ts'

/** A gateway that has not seen the switch for this long may not know that it was thrown. */
const MAX_VIEW_AGE_MS = 2_000

/** Refuses new work while the kill switch is active, or while this gateway cannot tell (design 10.11). */
export function checkKillSwitch(view: KillSwitchView, now = Date.now()): void {
  if (view.active) {
    throw new ApiError('operator_kill_switch', 'new work is stopped by an operator', {
      details: { reason: view.reason },
      headers: { 'retry-after': '30' },
    })
  }
  if (now - view.seenAt > MAX_VIEW_AGE_MS) {
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
