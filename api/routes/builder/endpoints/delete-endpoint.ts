import type { Transaction } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointFacts } from '../../../../db/repositories/endpoints/endpoints.ts'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import * as versionLifecycleRepository from '../../../../db/repositories/models/version-lifecycle.ts'
import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import * as openWorkRepository from '../../../../db/repositories/platform/open-work.ts'
import { retryTransaction } from '../../../../db/retry-transaction.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { LIFECYCLE_STATES } from '../../../../domain/models/lifecycle.ts'
import { route } from '../../../http/route.ts'
import { assertOwn, endpointNotFound, usableEndpointFacts } from './access.ts'
import { EndpointParams } from './params.ts'

export const deleteEndpoint = route({
  operationId: 'deleteEndpoint',
  summary: 'Delete an endpoint; its account can use its name again',
  method: 'DELETE',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  params: EndpointParams,
  success: { status: 204 },
  errors: ['not_found', 'forbidden', 'conflict'],

  async handler({ caller: { accountId }, params: { endpoint_id } }, { db, now }) {
    const seen = await usableEndpointFacts(db, accountId, endpoint_id)
    if (seen.is_base_model && seen.account_id !== accountId) throw baseModel()
    assertOwn(seen, accountId)
    const remove = seen.is_base_model ? withdrawImport : removeEndpoint
    // This also changes the endpoints that the deleted one replaces; other requests may be changing them too, hence the
    // retry.
    const deleted = await retryTransaction(db, (trx) => remove(trx, seen, now()))
    if (!deleted) throw endpointNotFound()
  },
})

async function removeEndpoint(
  trx: Transaction<Database>,
  { id }: EndpointFacts,
  at: Date,
): Promise<EndpointRow | undefined> {
  const row = await endpointRepository.lockEndpoint(trx, id)
  if (!row) return undefined
  await endpointRepository.forgetReplacement(trx, row.name)
  return endpointRepository.markEndpointDeleted(trx, id, { at })
}

const MAX_NAME = 80

/** Base models cannot be deleted (4.5). An import becomes a base model when it is ready for the first time. */
const baseModel = () =>
  new ApiError('conflict', 'base models cannot be deleted; disable this one to stop further requests')

async function assertNoForeignTasks(trx: Transaction<Database>, row: EndpointFacts): Promise<void> {
  if (await openWorkRepository.hasForeignTasks(trx, row)) {
    throw new ApiError('conflict', 'requests from other accounts to this endpoint are still in progress')
  }
}

/**
 * Withdraws an import that was never ready and that nothing was built on. Its version stays, disabled, because tasks
 * refer to it. Its name becomes free again, since any new import under that name is of the same repository.
 */
async function withdrawImport(
  trx: Transaction<Database>,
  seen: EndpointFacts,
  at: Date,
): Promise<EndpointRow | undefined> {
  if (seen.base_model) await hubModelRepository.lockHubRepo(trx, seen.account_id, seen.base_model)
  // Lock the version before the endpoint, in the same order as lifecycle changes do.
  const version = await versionRepository.lockVersion(trx, seen.version_id)
  const row = await endpointRepository.lockEndpoint(trx, seen.id)
  if (!row || !version) return undefined
  if (version.ready_at !== null) throw baseModel()
  await assertNoForeignTasks(trx, row)
  if (!(await hubModelRepository.removeHubModel(trx, { endpointId: row.id, accountId: row.account_id })))
    throw baseModel()
  await endpointRepository.forgetReplacement(trx, row.name)
  const name = `${row.name.slice(0, MAX_NAME)}--${row.id.slice(-12)}`
  const deleted = await endpointRepository.markEndpointDeleted(trx, row.id, { at, name })
  if (await versionRepository.findVersionUser(trx, version)) {
    throw new ApiError(
      'conflict',
      'a run, merge, version or model was built on this import; disable it instead',
    )
  }
  const note = 'its import was withdrawn'
  await versionLifecycleRepository.moveVersion(trx, version.id, {
    from: LIFECYCLE_STATES,
    to: 'disabled',
    note,
    now: at,
  })
  return deleted
}
