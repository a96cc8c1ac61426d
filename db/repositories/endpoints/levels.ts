import type { Transaction } from 'kysely'
import { latencyClassOf, PROVEN, provenLevel } from '../../../domain/tools/levels.ts'
import type { Database } from '../../tables.ts'
import { noteEndpointChange } from './changes.ts'

const MAX_AGED = 1_000

/**
 * Updates the levels of used endpoints and of those old enough for the highest level, and notifies every gateway of
 * changed ones. The caller has changed the used endpoints in this transaction.
 */
export async function moveLevels(
  trx: Transaction<Database>,
  usedIds: readonly string[],
  now: Date,
): Promise<void> {
  const aged = await trx
    .selectFrom('endpoint')
    .select('id')
    .where('proven', '=', 'beta')
    .where('deleted_at', 'is', null)
    .where('created_at', '<=', new Date(now.getTime() - PROVEN.stable.ageMs))
    .where('succeeded_requests', '>=', PROVEN.stable.successes)
    .where((eb) => eb(eb.fn.coalesce('failure_share', eb.lit(0)), '<=', PROVEN.stable.failures))
    .limit(MAX_AGED)
    .forUpdate()
    .skipLocked()
    .execute()
  const ids = [...new Set([...usedIds, ...aged.map(({ id }) => id)])]
  if (ids.length === 0) return
  const rows = await trx
    .selectFrom('endpoint')
    .select([
      'id',
      'latency_ms',
      'latency_class',
      'succeeded_requests',
      'failure_share',
      'created_at',
      'proven',
    ])
    .where('id', 'in', ids)
    .execute()
  const moved: string[] = []
  for (const row of rows) {
    const proven = provenLevel(row, now)
    const latency_class =
      row.latency_ms === null ? row.latency_class : latencyClassOf(row.latency_ms, row.latency_class)
    if (proven === row.proven && latency_class === row.latency_class) continue
    await trx.updateTable('endpoint').set({ proven, latency_class }).where('id', '=', row.id).execute()
    moved.push(row.id)
  }
  await noteEndpointChange(trx, moved)
}
