import type { KillSwitchView } from '../../gateway/caches/kill-switch.ts'
import { passKillSwitch } from '../kill-switch-gate.ts'
import type { Middleware } from './middleware.ts'

/** Refuses new work while the kill switch is active. */
export const stopAtKillSwitch =
  (killSwitch: KillSwitchView): Middleware =>
  (_ctx, next) => {
    const passing = passKillSwitch(killSwitch)
    return passing ? passing.then(next) : next()
  }
