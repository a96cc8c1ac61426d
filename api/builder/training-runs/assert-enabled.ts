import type { Kysely } from 'kysely'
import { readConfigLifecycles } from '../../../db/repositories/model-config-lifecycle.ts'
import type { Database } from '../../../db/tables.ts'
import { ApiError } from '../../../domain/errors.ts'

/** Refuses a config that the account itself has disabled in its registry. */
export async function assertEnabled(db: Kysely<Database>, accountId: string, modelId: string): Promise<void> {
  const said = (await readConfigLifecycles(db, accountId)).get(modelId)
  if (said?.lifecycle_status !== 'disabled') return
  throw new ApiError('conflict', `your account has disabled ${modelId}: ${said.reason ?? 'no reason given'}`)
}
