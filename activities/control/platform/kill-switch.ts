import { readKillSwitch, writeKillSwitch } from '../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchState } from '../../../workflows/contract/messages.ts'
import type { ControlDeps } from '../deps.ts'

const stateOf = ({ active, reason, actor }: KillSwitchState): KillSwitchState => ({ active, reason, actor })

export const createKillSwitchActivities = ({ db, now }: ControlDeps) => ({
  /** Safe to repeat because an order that already holds changes nothing. */
  async switchKillSwitch(order: KillSwitchState): Promise<KillSwitchState> {
    return stateOf(await writeKillSwitch(db, order, now()))
  },

  /** What the row says now. Safe to repeat because it only reads. */
  async followKillSwitch(): Promise<KillSwitchState> {
    return stateOf(await readKillSwitch(db))
  },
})
