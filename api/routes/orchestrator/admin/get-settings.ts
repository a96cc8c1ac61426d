import { effectiveSettings } from '../../../../platform/config/effective.ts'
import { VERSION } from '../../../../platform/version.ts'
import { Settings } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const getSettings = route({
  operationId: 'getSettings',
  summary: 'Get the effective settings of the gateway that responds, without secrets',
  method: 'GET',
  path: '/admin/settings',
  auth: 'operations-key',
  success: { status: 200, schema: Settings },
  handler: (_request, { config, gateway }) => ({
    gateway_id: gateway.id,
    version: VERSION,
    settings: effectiveSettings(config),
  }),
})
