import Type from 'typebox'
import { Uuid } from '../../../../schemas/common.ts'
import { ChangeLifecycle, RegistryEntry } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { requireReason } from '../../builder/models/change-lifecycle.ts'
import { moveImport } from '../../builder/models/move-import.ts'
import { presentHubImport } from '../../builder/models/present.ts'

export const overrideLifecycle = route({
  operationId: 'overrideLifecycle',
  summary: "Set the lifecycle state of any account's hub import, even to ready without a test",
  method: 'PATCH',
  path: '/admin/hub-models/{model_config_id}/lifecycle',
  auth: 'operations-key',
  params: Type.Object({ model_config_id: Uuid }),
  body: ChangeLifecycle,
  success: { status: 200, schema: RegistryEntry },
  errors: ['not_found', 'conflict'],

  async handler({ params: { model_config_id: id }, body }, services) {
    const { lifecycle_status: to, reason = null } = body
    requireReason(body)
    const row = await moveImport(services, { id, to, reason, accountId: undefined })
    return presentHubImport(row, row.account_id, services.catalog)
  },
})
