import type { Kysely, Transaction } from 'kysely'
import * as servingRepository from '../../../../db/repositories/endpoints/serving.ts'
import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { fleetProblem, servingProblem } from '../../../../domain/serving.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { Serving } from '../../../../schemas/nodes/serving.ts'

/** Rejects a serving with 422 if no engine of the version's kind accepts it, or no node of the account can apply it. */
export async function assertServing(
  db: Kysely<Database>,
  { profiles }: Pick<Catalog, 'profiles'>,
  {
    serving,
    version,
    accountId,
  }: { serving: Serving; version: { runtime_profile: string }; accountId: string },
): Promise<void> {
  const problem =
    servingProblem(serving, version, profiles) ??
    fleetProblem(serving, version, { profiles, nodes: await nodeLoadRepository.listGpus(db, accountId) })
  if (problem) throw invalid(['body', ...problem.field.split('.')], problem.message, 'serving')
}

/**
 * Rejects a serving with 403 if the version belongs to another account, and with 409 if another endpoint of the version
 * has one: a node loads the version only once, for all its endpoints.
 */
export async function assertMaySetServing(
  trx: Transaction<Database>,
  { id, version_id, account_id }: { id?: string; version_id: string; account_id: string },
): Promise<void> {
  const { owner, other } = await servingRepository.lockServing(trx, { id, versionId: version_id })
  if (owner !== account_id) {
    throw new ApiError(
      'forbidden',
      'the model of this endpoint belongs to another account; only its owner may change how nodes serve it',
    )
  }
  if (other !== undefined) {
    throw new ApiError(
      'conflict',
      `the endpoint ${other} of the same version already sets serving; change it there, or remove it there first`,
    )
  }
}

/** Returns a serving that has settings; an empty one stands for the defaults. */
export const settingsIn = (serving: Serving | null | undefined): Serving | undefined =>
  serving && Object.keys(serving).length > 0 ? serving : undefined

/** Returns the column of a serving; null without any setting. */
export const servingColumn = (serving: Serving | null | undefined): string | null => {
  const settings = settingsIn(serving)
  return settings ? JSON.stringify(settings) : null
}
