import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchChange } from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchRow } from '../../../../../db/tables/accounts.ts'
import { awaitGateways } from '../../../../await-gateways.ts'
import { emit } from '../../../../events.ts'
import type { Services } from '../../../../services.ts'

/** Writes the row, signals the workflow, and waits until every live gateway has acknowledged the change. */
export async function switchKillSwitch(
  { db, killSwitchSignal, log, now }: Pick<Services, 'db' | 'killSwitchSignal' | 'log' | 'now'>,
  change: KillSwitchChange,
): Promise<KillSwitchRow> {
  const row = await killSwitchRepository.writeKillSwitch(db, change, now())
  killSwitchSignal.send(row)
  const { version } = row
  // A gateway that loses contact rejects new work on its own.
  const late = await awaitGateways(async () => {
    const { live, acknowledged } = await killSwitchRepository.countAcknowledged(db, version)
    return acknowledged >= live ? undefined : { live, acknowledged, version }
  })
  if (late) emit(log, 'kill_switch.unacknowledged', late)
  return row
}
