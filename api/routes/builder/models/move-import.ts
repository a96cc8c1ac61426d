import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import * as versionLifecycleRepository from '../../../../db/repositories/models/version-lifecycle.ts'
import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isOffered, type LifecycleStatus } from '../../../../domain/models/lifecycle.ts'
import { audit } from '../../../audit.ts'
import { startCandidateTest } from '../../../registry/candidate-tests.ts'
import type { Services } from '../../../services.ts'

export interface ImportMove {
  id: string
  to: LifecycleStatus
  reason: string | null
  /** The account whose admin moves the import; undefined for an operator, who may move every import. */
  accountId: string | undefined
}

/**
 * Sets the lifecycle state of a hub import. `ready` and `preferred` open it to every account, so only a passed
 * candidate test or an operator can do that first. The importing account can then choose between them, and undo its own
 * `disabled`.
 */
export async function moveImport(services: Services, move: ImportMove): Promise<HubImportRow> {
  const { db, now } = services
  const { id, to, reason, accountId } = move
  const tested = await db.transaction().execute(async (trx) => {
    const found = await hubModelRepository.findHubModel(trx, { id, accountId })
    if (!found) throw noModel()
    const version = await versionRepository.lockVersion(trx, found.version_id)
    if (!version) throw noModel()
    const { lifecycle_status: status, reopenable, unusable } = version
    const byImporter = accountId !== undefined
    const opens = isOffered(to) && !isOffered(status)
    if (opens && byImporter && !(reopenable && unusable === null)) throw untested()
    // A candidate's note is the result of its test, so clear the note of a candidate that will be tested again.
    const note = to === 'candidate' ? null : reason
    const moved = await versionLifecycleRepository.moveVersion(trx, found.version_id, {
      from: [status],
      to,
      note,
      isTriedAnew: to !== 'disabled',
      reopenable: byImporter && to === 'disabled' && (isOffered(status) || reopenable),
      now: now(),
    })
    if (!moved)
      throw new ApiError('conflict', "another request changed the model's state; read it and try again")
    if (accountId === undefined)
      await audit(trx, {
        action: 'overrideLifecycle',
        subject: { kind: 'model', id },
        accountId: found.account_id,
        before: { lifecycle_status: status },
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
    'a hub import becomes ready by passing its test, which follows its first request; its account can make it ready ' +
      "again only if that account disabled it; move it to candidate to have it tested again, or ask the platform's operator",
  )

export const noModel = () =>
  new ApiError(
    'not_found',
    'your account has no model config with this id; GET /api/builder/v1/models/registry lists them',
  )
