import Type from 'typebox'
import { countAcknowledged, readKillSwitch } from '../../../../db/repositories/platform/kill-switch.ts'
import type { KillSwitchRow } from '../../../../db/tables/accounts.ts'
import { KillSwitchStatus } from '../../../../schemas/admin.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { switchKillSwitch } from './switch-kill-switch.ts'

const Reason = Type.String({ minLength: 1, maxLength: 2000 })
/** Who the row names when the order came over REST: there is one operations key, and no name behind it. */
const ACTOR = 'operations-key'

export const activateKillSwitch = route({
  operationId: 'activateKillSwitch',
  summary: 'Refuse all new work; what is admitted goes on',
  method: 'POST',
  path: '/admin/killswitch/activate',
  auth: 'operations-key',
  query: Type.Object({ reason: Reason }),
  success: { status: 200, schema: KillSwitchStatus },

  async handler({ query: { reason } }, services) {
    return present(await switchKillSwitch(services, { active: true, reason, actor: ACTOR }), services)
  },
})

export const deactivateKillSwitch = route({
  operationId: 'deactivateKillSwitch',
  summary: 'Admit new work again',
  method: 'POST',
  path: '/admin/killswitch/deactivate',
  auth: 'operations-key',
  query: Type.Object({ reason: Type.Optional(Type.String({ maxLength: 2000 })) }),
  success: { status: 200, schema: KillSwitchStatus },

  async handler({ query: { reason } }, services) {
    const change = { active: false, reason: reason || null, actor: ACTOR }
    return present(await switchKillSwitch(services, change), services)
  },
})

export const getKillSwitch = route({
  operationId: 'getKillSwitch',
  summary: 'Read the kill switch and how many gateways act on it',
  method: 'GET',
  path: '/admin/killswitch/status',
  auth: 'operations-key',
  success: { status: 200, schema: KillSwitchStatus },

  async handler(_request, services) {
    return present(await readKillSwitch(services.db), services)
  },
})

async function present(row: KillSwitchRow, { db }: Services): Promise<KillSwitchStatus> {
  const { live, acknowledged } = await countAcknowledged(db, row.version)
  return {
    active: row.active,
    reason: row.reason,
    actor: row.actor,
    changed_at: row.changed_at.toISOString(),
    gateways: { live, acknowledged },
  }
}
