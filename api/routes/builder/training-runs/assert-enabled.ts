import type { Kysely } from 'kysely'
import * as configLifecycleRepository from '../../../../db/repositories/models/config-lifecycle.ts'
import type { Database } from '../../../../db/tables.ts'
import type { ModelVersionRow } from '../../../../db/tables/models.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'

/** Throws a 409 for a config that the account has disabled in its registry. */
export async function assertEnabled(db: Kysely<Database>, accountId: string, modelId: string): Promise<void> {
  const lifecycle = (await configLifecycleRepository.readConfigLifecycles(db, accountId)).get(modelId)
  if (lifecycle?.lifecycle_status !== 'disabled') return
  throw new ApiError(
    'conflict',
    `your account has disabled ${modelId}: ${lifecycle.reason ?? 'no reason given'}`,
  )
}

/** Throws for a disabled version; the error names its location in the request. */
export function assertVersionEnabled(
  { lifecycle_status }: Pick<ModelVersionRow, 'lifecycle_status'>,
  loc: readonly (string | number)[],
): void {
  if (lifecycle_status === 'disabled') throw invalid(loc, 'this version is disabled')
}
