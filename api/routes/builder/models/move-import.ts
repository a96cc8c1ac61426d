import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import * as versionLifecycleRepository from '../../../../db/repositories/models/version-lifecycle.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isOffered, type LifecycleStatus } from '../../../../domain/models/lifecycle.ts'
import { audit } from '../../../audit.ts'
import { startCandidateTest } from '../../../registry/candidate-tests.ts'
import type { Services } from '../../../services.ts'

export interface ImportMove {
  id: string
  to: LifecycleStatus
  reason: string | null
  /** The account whose admin moves it; undefined for an operator, who may move every import. */
  accountId: string | undefined
}

/**
 * Sets the lifecycle state of a hub import. `ready` and `preferred` open it to every account, so the importing account
 * can only choose between them: the candidate's test opens it, or an operator.
 */
export async function moveImport(services: Services, move: ImportMove): Promise<HubImportRow> {
  const { db, now } = services
  const { id, to, reason, accountId } = move
  const tested = await db.transaction().execute(async (trx) => {
    const found = await hubModelRepository.findHubModel(trx, { id, accountId })
    if (!found) throw noModel()
    const opens = isOffered(to) && !isOffered(found.lifecycle_status)
    if (opens && accountId !== undefined) throw untested()
    // A candidate's note is the result of its test, so a candidate that will be tested again has none.
    const note = to === 'candidate' ? null : reason
    const from = [found.lifecycle_status]
    const moved = await versionLifecycleRepository.moveVersion(trx, found.version_id, {
      from,
      to,
      note,
      isTriedAnew: to !== 'disabled',
      now: now(),
    })
    if (!moved) throw new ApiError('conflict', 'the model has been moved by somebody else meanwhile')
    if (accountId === undefined)
      await audit(trx, {
        action: 'overrideLifecycle',
        subject: { kind: 'model', id },
        accountId: found.account_id,
        before: { lifecycle_status: found.lifecycle_status },
        after: { lifecycle_status: to, ...(reason !== null && { reason }) },
      })
    return to === 'candidate' ? moved : undefined
  })
  if (tested) await startCandidateTest(services, tested)
  const row = await hubModelRepository.findHubModel(db, { id, accountId })
  if (!row) throw noModel()
  return row
}

const untested = () =>
  new ApiError(
    'forbidden',
    'a hub import becomes ready by passing its test, which follows its first request; move it to candidate to have it ' +
      'tested anew, or ask the operator of the platform',
  )

export const noModel = () =>
  new ApiError(
    'not_found',
    'there is no model config of yours with this id; GET /api/builder/v1/models/registry lists them',
  )
