import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchRow } from '../../../../../db/tables/accounts.ts'
import type { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import type { Services } from '../../../../services.ts'

/** The actor of an order over REST; the single operations key has no name. */
export const ACTOR = 'operations-key'

export async function present(row: KillSwitchRow, { db }: Services): Promise<KillSwitchStatus> {
  const { live, acknowledged } = await killSwitchRepository.countAcknowledged(db, row.version)
  return {
    active: row.active,
    reason: row.reason,
    actor: row.actor,
    changed_at: row.changed_at.toISOString(),
    gateways: { live, acknowledged },
  }
}
