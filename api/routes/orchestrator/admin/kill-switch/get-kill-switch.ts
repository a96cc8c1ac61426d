import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import { KillSwitchStatus } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { present } from './present.ts'

export const getKillSwitch = route({
  operationId: 'getKillSwitch',
  summary: 'Get the state of the kill switch and the number of gateways that have applied it',
  method: 'GET',
  path: '/admin/killswitch/status',
  auth: 'operations-key',
  success: { status: 200, schema: KillSwitchStatus },

  async handler(_request, services) {
    return present(await killSwitchRepository.readKillSwitch(services.db), services)
  },
})
