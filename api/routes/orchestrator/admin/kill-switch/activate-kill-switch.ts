import Type from 'typebox'
import { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import { Formed } from '../../../../../schemas/forms.ts'
import { route } from '../../../../http/route.ts'
import { ACTOR, present } from './present.ts'
import { switchKillSwitch } from './switch.ts'

const Reason = Formed('\\S', 'must not be blank', { minLength: 1, maxLength: 2000 })

export const activateKillSwitch = route({
  operationId: 'activateKillSwitch',
  summary: 'Refuse all new work; admitted work continues',
  method: 'POST',
  path: '/admin/killswitch/activate',
  auth: 'operations-key',
  query: Type.Object({ reason: Reason }),
  success: { status: 200, schema: KillSwitchStatus },

  async handler({ query: { reason } }, services) {
    return present(await switchKillSwitch(services, { active: true, reason, actor: ACTOR }), services)
  },
})
