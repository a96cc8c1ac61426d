import { countAcknowledged } from '../../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchRow } from '../../../../../db/tables/accounts.ts'
import type { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import type { Services } from '../../../../services.ts'

/** Who the row names when the order came over REST: there is one operations key, and no name behind it. */
export const ACTOR = 'operations-key'

export async function present(row: KillSwitchRow, { db }: Services): Promise<KillSwitchStatus> {
  const { live, acknowledged } = await countAcknowledged(db, row.version)
  return {
    active: row.active,
    reason: row.reason,
    actor: row.actor,
    changed_at: row.changed_at.toISOString(),
    gateways: { live, acknowledged },
  }
}
