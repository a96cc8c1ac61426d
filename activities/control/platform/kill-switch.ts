import * as killSwitchRepository from '../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchState } from '../../../workflows/contract/messages.ts'
import type { ControlDeps } from '../deps.ts'

const stateOf = ({ active, reason, actor }: KillSwitchState): KillSwitchState => ({ active, reason, actor })

export const createKillSwitchActivities = ({ db, now }: ControlDeps) => ({
  /** Writes the kill switch's state. Safe to repeat because an order that is already in effect changes nothing. */
  async switchKillSwitch(order: KillSwitchState): Promise<KillSwitchState> {
    return stateOf(await killSwitchRepository.writeKillSwitch(db, order, now()))
  },

  /** Returns the state in the row. Safe to repeat because it only reads. */
  async followKillSwitch(): Promise<KillSwitchState> {
    return stateOf(await killSwitchRepository.readKillSwitch(db))
  },
})
