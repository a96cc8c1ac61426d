import type { Transaction } from 'kysely'
import * as servingRepository from '../../../../db/repositories/endpoints/serving.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { servingProblem } from '../../../../domain/serving.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { Serving } from '../../../../schemas/nodes/serving.ts'

/** Rejects a serving with 422 if no engine of the version's kind accepts it. */
export function assertServing(
  { profiles }: Pick<Catalog, 'profiles'>,
  version: { runtime_profile: string },
  serving: Serving,
): void {
  const problem = servingProblem(serving, version, profiles)
  if (problem) throw invalid(['body', ...problem.field.split('.')], problem.message, 'serving')
}

/** Rejects a serving with 409 if another endpoint of the version has one: a node loads the version only once. */
export async function assertOnlyServing(
  trx: Transaction<Database>,
  { id, version_id }: { id?: string; version_id: string },
): Promise<void> {
  const other = await servingRepository.findOtherServing(trx, { id, versionId: version_id })
  if (other) {
    throw new ApiError(
      'conflict',
      `the endpoint ${other.name} of the same version already sets serving; change it there, or remove it there first`,
    )
  }
}

/** Returns the column of a serving; null without any setting. */
export const servingColumn = (serving: Serving | null): string | null =>
  serving && Object.keys(serving).length > 0 ? JSON.stringify(serving) : null
