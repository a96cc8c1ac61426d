import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { present } from './present.ts'

export const getKillSwitch = route({
  operationId: 'getKillSwitch',
  summary: 'Read the kill switch and how many gateways act on it',
  method: 'GET',
  path: '/admin/killswitch/status',
  auth: 'operations-key',
  success: { status: 200, schema: KillSwitchStatus },

  async handler(_request, services) {
    return present(await killSwitchRepository.readKillSwitch(services.db), services)
  },
})
