import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'

/** A model whose files are being uploaded. */
export interface ModelImport {
  id: string
  account_id: string
  paths: string[]
}

/** Records which files are about to be uploaded. */
export async function insertModelImport(db: Kysely<Database>, model: ModelImport): Promise<void> {
  await db.insertInto('model_import').values(model).execute()
}

/** Claims an import for completion; false when it is complete, has expired, or does not exist. */
export async function takeModelImport(
  trx: Transaction<Database>,
  { id, account_id }: Pick<ModelImport, 'id' | 'account_id'>,
): Promise<boolean> {
  const taken = await trx
    .deleteFrom('model_import')
    .where('id', '=', id)
    .where('account_id', '=', account_id)
    .where('expired', '=', false)
    .returning('id')
    .executeTakeFirst()
  return taken !== undefined
}

/**
 * Marks and returns imports that were not completed within 24 hours, so that no completion can begin while their files
 * are being removed.
 */
export async function expiredImports(
  db: Kysely<Database>,
  limit: number,
): Promise<Pick<ModelImport, 'id' | 'paths'>[]> {
  const { rows } = await sql<Pick<ModelImport, 'id' | 'paths'>>`
    update model_import set expired = true
    where id in (
      select id from model_import
      where created_at < now() - interval '24 hours'
      order by created_at limit ${limit}
      for update skip locked
    )
    returning id, paths`.execute(db)
  return rows
}

export async function removeModelImports(db: Kysely<Database>, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await db.deleteFrom('model_import').where('id', 'in', ids).where('expired', '=', true).execute()
}
