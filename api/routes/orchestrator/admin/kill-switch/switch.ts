import { setTimeout as sleep } from 'node:timers/promises'
import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchChange } from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchRow } from '../../../../../db/tables/accounts.ts'
import { emit } from '../../../../events.ts'
import type { Services } from '../../../../services.ts'

/** The longest wait for gateways; one that is silent for longer closes its own gate. */
const ACKNOWLEDGE_MS = 2_000
const LOOK_MS = 25

/** Writes the row, signals the workflow, and waits until every live gateway has acknowledged it. */
export async function switchKillSwitch(
  { db, killSwitchSignal, log, now }: Pick<Services, 'db' | 'killSwitchSignal' | 'log' | 'now'>,
  change: KillSwitchChange,
): Promise<KillSwitchRow> {
  const row = await killSwitchRepository.writeKillSwitch(db, change, now())
  killSwitchSignal.send(row)
  const deadline = performance.now() + ACKNOWLEDGE_MS
  for (;;) {
    const { live, acknowledged } = await killSwitchRepository.countAcknowledged(db, row.version)
    if (acknowledged >= live) return row
    if (performance.now() > deadline) {
      emit(log, 'kill_switch.unacknowledged', { live, acknowledged, version: row.version })
      return row
    }
    await sleep(LOOK_MS)
  }
}
