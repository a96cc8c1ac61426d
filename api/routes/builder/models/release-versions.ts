import type { Transaction } from 'kysely'
import * as modelRepository from '../../../../db/repositories/models/models.ts'
import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError } from '../../../../domain/errors.ts'

/**
 * Removes a version from a model, or all of its versions if no id is given, and returns how many it removed. Throws a
 * 409 if one of them is in use.
 */
export async function releaseVersions(
  trx: Transaction<Database>,
  { accountId, modelId, versionId }: { accountId: string; modelId: string; versionId?: string },
): Promise<number> {
  if (!(await modelRepository.lockModel(trx, accountId, modelId))) {
    throw new ApiError('not_found', 'there is no model with this id')
  }
  const versions = await modelRepository.lockVersionsOf(trx, modelId, versionId)
  for (const version of versions) {
    const user = await versionRepository.findVersionUser(trx, version)
    if (user === undefined) continue
    throw new ApiError('conflict', `the version ${version.id} is in use: ${user}`, {
      details: { version_id: version.id },
    })
  }
  await modelRepository.releaseVersions(trx, versions)
  return versions.length
}
