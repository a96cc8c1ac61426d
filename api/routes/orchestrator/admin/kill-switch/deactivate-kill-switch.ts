import Type from 'typebox'
import { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { ACTOR, present } from './present.ts'
import { switchKillSwitch } from './switch.ts'

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
