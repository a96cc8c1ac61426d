import type { Kysely, Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow } from '../../tables/models.ts'
import { noteChangeBehind } from '../endpoints/changes.ts'
import { VERSION_FACTS, type VersionFacts } from './version-facts.ts'

type LifecycleStatus = ModelVersionRow['lifecycle_status']

export function findVersion(db: Kysely<Database>, id: string): Promise<VersionFacts | undefined> {
  return db.selectFrom('model_version').select(VERSION_FACTS).where('id', '=', id).executeTakeFirst()
}

export interface VersionMove {
  from: readonly LifecycleStatus[]
  to: LifecycleStatus
  note: string | null
  /** True to clear `unusable`, so that the weights are tried again. */
  isTriedAnew?: boolean
  /**
   * True when the importer may make the version ready again without another test; every other transition resets this.
   */
  reopenable?: boolean
  now: Date
}

/**
 * Moves a version along its lifecycle and notifies every gateway; `undefined` when another writer came first. An
 * imported model's endpoint opens to all accounts when the model becomes `ready`, and closes when the model leaves that
 * state.
 */
export async function moveVersion(
  trx: Transaction<Database>,
  id: string,
  { from, to, note, now, isTriedAnew, reopenable = false }: VersionMove,
): Promise<VersionFacts | undefined> {
  const row = await trx
    .updateTable('model_version')
    .set({
      lifecycle_status: to,
      lifecycle_note: note,
      tests: 0,
      reopenable,
      ...(isTriedAnew && { unusable: null }),
    })
    .where('id', '=', id)
    .where('lifecycle_status', 'in', from)
    .returning(VERSION_FACTS)
    .executeTakeFirst()
  if (!row) return undefined
  const isOffered = to === 'ready' || to === 'preferred'
  await trx
    .updateTable('endpoint')
    .set({ review_status: isOffered ? 'approved' : 'active', updated_at: now })
    .where('version_id', '=', id)
    .where('deleted_at', 'is', null)
    .where('is_base_model', '=', true)
    .where('visibility', '=', 'public')
    .where('review_status', 'in', ['active', 'approved'])
    .execute()
  await noteChangeBehind(trx, { versionId: id })
  return row
}
