import type { Kysely } from 'kysely'
import * as modelRepository from '../../../../db/repositories/models/models.ts'
import type { Database } from '../../../../db/tables.ts'
import type { ModelRow } from '../../../../db/tables/models.ts'
import { ApiError } from '../../../../domain/errors.ts'

/** Returns the model if it belongs to this account. */
export async function requireModel(db: Kysely<Database>, accountId: string, id: string): Promise<ModelRow> {
  const row = await modelRepository.findModel(db, accountId, id)
  if (!row) throw new ApiError('not_found', 'there is no model with this id')
  return row
}
