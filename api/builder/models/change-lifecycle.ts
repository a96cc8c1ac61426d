import Type from 'typebox'
import { findHubModel } from '../../../db/repositories/hub-models.ts'
import { readConfigLifecycles, saveConfigLifecycle } from '../../../db/repositories/model-config-lifecycle.ts'
import { moveVersion } from '../../../db/repositories/version-lifecycle.ts'
import { ApiError, invalid } from '../../../domain/errors.ts'
import { LIFECYCLE, type LifecycleStatus, mayMove } from '../../../domain/model-lifecycle.ts'
import { ChangeLifecycle, RegistryEntry } from '../../../schemas/model.ts'
import { startCandidateTest } from '../../candidate-tests.ts'
import { route } from '../../http/route.ts'
import type { Services } from '../../services.ts'
import { presentCatalogEntry, presentHubImport } from './present.ts'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

interface Change {
  accountId: string
  id: string
  to: LifecycleStatus
  reason: string | null
}

export const changeLifecycle = route({
  operationId: 'changeLifecycle',
  summary: 'Move a model config along its lifecycle; disabling one needs a reason',
  method: 'PATCH',
  path: '/models/registry/{model_config_id}/lifecycle',
  auth: 'api-key',
  role: 'admin',
  params: Type.Object({ model_config_id: Type.String({ minLength: 1, maxLength: 200 }) }),
  body: ChangeLifecycle,
  success: { status: 200, schema: RegistryEntry },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params: { model_config_id: id }, body }, services) {
    const { lifecycle_status: to, reason = null } = body
    if (to === 'disabled' && !reason?.trim()) {
      throw invalid(['body', 'reason'], 'a reason is required to disable a model', 'missing')
    }
    const change: Change = { accountId, id, to, reason }
    return UUID.test(id) ? changeImport(services, change) : changeCatalogEntry(services, change)
  },
})

/** An account speaks for itself: what it says of a config of the catalog holds for its own runs and endpoints. */
async function changeCatalogEntry({ db, catalog, now }: Services, { accountId, id, to, reason }: Change) {
  const model = catalog.model(id)
  if (!model) throw noModel()
  const said = await db.transaction().execute(async (trx) => {
    const current = (await readConfigLifecycles(trx, accountId)).get(id)
    checkStep(current?.lifecycle_status ?? model.config.lifecycle_status, to)
    const row = {
      account_id: accountId,
      model_config_id: id,
      lifecycle_status: to,
      reason,
      updated_at: now(),
    }
    await saveConfigLifecycle(trx, row)
    return row
  })
  return presentCatalogEntry(model, said)
}

async function changeImport(services: Services, { accountId, id, to, reason }: Change) {
  const { db, catalog, now } = services
  const version = await db.transaction().execute(async (trx) => {
    const found = await findHubModel(trx, accountId, id)
    if (!found) throw noModel()
    checkStep(found.lifecycle_status, to)
    const moved = await moveVersion(trx, found.version_id, {
      from: [found.lifecycle_status],
      to,
      note: reason,
      now: now(),
    })
    if (!moved) throw new ApiError('conflict', 'the model has been moved by somebody else meanwhile')
    // One that comes back has to pass its test again.
    return to === 'candidate' && found.lifecycle_status === 'disabled' ? moved : undefined
  })
  if (version) await startCandidateTest(services, { ...version, lifecycle_note: null })
  const row = await findHubModel(db, accountId, id)
  if (!row) throw noModel()
  return presentHubImport(row, accountId, catalog)
}

function checkStep(from: LifecycleStatus, to: LifecycleStatus): void {
  if (mayMove(from, to)) return
  throw new ApiError('conflict', `a model that is ${from} cannot become ${to}`, {
    details: { lifecycle_status: from, allowed: LIFECYCLE[from] },
  })
}

const noModel = () =>
  new ApiError(
    'not_found',
    'there is no model config of yours with this id; GET /api/builder/v1/models/registry lists them',
  )
