import Type, { type Static } from 'typebox'
import * as configLifecycleRepository from '../../../../db/repositories/models/config-lifecycle.ts'
import { invalid } from '../../../../domain/errors.ts'
import type { LifecycleStatus } from '../../../../domain/models/lifecycle.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import { ChangeLifecycle, RegistryEntry } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { moveImport, noModel } from './move-import.ts'
import { presentCatalogEntry, presentHubImport } from './present.ts'

interface Change {
  accountId: string
  id: string
  to: LifecycleStatus
  reason: string | null
}

export const changeLifecycle = route({
  operationId: 'changeLifecycle',
  summary: 'Set the lifecycle state of a model config; `disabled` needs a reason',
  method: 'PATCH',
  path: '/models/registry/{model_config_id}/lifecycle',
  auth: 'api-key',
  role: 'admin',
  params: Type.Object({ model_config_id: Type.String({ minLength: 1, maxLength: 200 }) }),
  body: ChangeLifecycle,
  success: { status: 200, schema: RegistryEntry },
  errors: ['not_found', 'forbidden', 'conflict'],

  async handler({ caller: { accountId }, params: { model_config_id: id }, body }, services) {
    const { lifecycle_status: to, reason = null } = body
    requireReason(body)
    const change: Change = { accountId, id, to, reason }
    if (!isUuid(id)) return changeCatalogEntry(services, change)
    return presentHubImport(await moveImport(services, change), accountId, services.catalog)
  },
})

export function requireReason({ lifecycle_status, reason }: Static<typeof ChangeLifecycle>): void {
  if (lifecycle_status !== 'disabled' || reason?.trim()) return
  throw invalid(['body', 'reason'], 'a reason is required to disable a model', 'missing')
}

/** A change to a catalog config applies only to this account's own runs and endpoints. */
async function changeCatalogEntry({ db, catalog, now }: Services, { accountId, id, to, reason }: Change) {
  const model = catalog.model(id)
  if (!model) throw noModel()
  const lifecycle = await db.transaction().execute(async (trx) => {
    const row = {
      account_id: accountId,
      model_config_id: id,
      lifecycle_status: to,
      reason,
      updated_at: now(),
    }
    await configLifecycleRepository.saveConfigLifecycle(trx, row)
    return row
  })
  return presentCatalogEntry(model, lifecycle)
}
