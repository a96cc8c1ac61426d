import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { Database } from '../../tables.ts'
import type { MemorySnapshotRow } from '../../tables/memory.ts'
import { lockMemory } from './namespaces.ts'

/**
 * Freezes a namespace's entries, up to the newest one, as a snapshot. Safe to repeat, because a build has only one
 * snapshot. Undefined if the namespace is gone.
 */
export async function freezeSnapshot(
  trx: Transaction<Database>,
  { namespaceId, build, modelKey }: { namespaceId: string; build: number; modelKey: string | null },
): Promise<MemorySnapshotRow | undefined> {
  const owner = await trx
    .selectFrom('memory_namespace')
    .select('account_id')
    .where('id', '=', namespaceId)
    .executeTakeFirst()
  if (!owner) return undefined
  // With this lock, no writer of entries has an uncommitted earlier version.
  await lockMemory(trx, owner.account_id)
  await trx
    .updateTable('memory_namespace')
    .set({ wanted_build: null, wanted_at: null })
    .where('id', '=', namespaceId)
    .where('wanted_build', '=', build)
    .execute()
  const { rows } = await sql<MemorySnapshotRow>`
    insert into memory_snapshot (id, namespace_id, account_id, build, status, version, entries, model_key)
    select ${newId()}, n.id, n.account_id, ${build}, 'building', coalesce(max(e.version), 0),
      count(e.id) filter (where e.superseded_by is null), ${modelKey}
    from memory_namespace n left join memory_entry e on e.namespace_id = n.id
    where n.id = ${namespaceId}
    group by n.id, n.account_id
    on conflict (namespace_id, build) do update set build = excluded.build
    returning *`.execute(trx)
  return rows[0]
}

/**
 * Returns the version of an account's snapshot: the one attached to the task, or else the newest. Undefined if there is
 * none.
 */
export async function findSnapshotVersion(
  db: Kysely<Database>,
  { accountId, snapshotId = null }: { accountId: string; snapshotId?: string | null | undefined },
): Promise<number | undefined> {
  const { rows } = await sql<{ version: number }>`
    select s.version from memory_namespace n
    join memory_snapshot s on s.namespace_id = n.id and s.id in (${snapshotId}::uuid, n.snapshot_id) and s.status = 'ready'
    where n.account_id = ${accountId}
    order by s.id = ${snapshotId}::uuid desc nulls last limit 1`.execute(db)
  return rows[0]?.version
}

/** Counts the entries of a snapshot that are recalled and have no vector yet, but may get one. */
export async function countMissingVectors(db: Kysely<Database>, snapshotId: string): Promise<number> {
  const { rows } = await sql<{ missing: number }>`
    select count(*)::int as missing from memory_snapshot s
    join memory_entry e on e.namespace_id = s.namespace_id and e.version <= s.version
    where s.id = ${snapshotId} and s.model_key is not null and e.superseded_by is null
      and e.embed_until is distinct from 'infinity'
      and not exists (
        select from memory_embedding v where v.entry_id = e.id and v.model_key = s.model_key)`.execute(db)
  return rows[0]?.missing ?? 0
}

/**
 * Marks a snapshot as ready, and makes it its namespace's current snapshot unless a newer one is ready. Safe to repeat.
 * `false` if the namespace is gone.
 */
export async function publishSnapshot(trx: Transaction<Database>, snapshotId: string): Promise<boolean> {
  const snapshot = await trx
    .updateTable('memory_snapshot')
    .set({ status: 'ready', ready_at: sql<Date>`coalesce(ready_at, now())` })
    .where('id', '=', snapshotId)
    .returningAll()
    .executeTakeFirst()
  if (!snapshot) return false
  await sql`
    update memory_namespace n set snapshot_id = ${snapshotId}
    where n.id = ${snapshot.namespace_id} and not exists (
      select from memory_snapshot newer where newer.id = n.snapshot_id and newer.build >= ${snapshot.build})`.execute(
    trx,
  )
  return true
}

/**
 * Removes snapshots that are older than their namespace's current one and that no open task refers to; returns how
 * many were removed.
 */
export async function removeOldSnapshots(
  db: Kysely<Database>,
  { namespaceId, limit }: { namespaceId?: string; limit: number },
): Promise<number> {
  const only = namespaceId === undefined ? sql`` : sql`and s.namespace_id = ${namespaceId}`
  const { numAffectedRows } = await sql`
    delete from memory_snapshot where id = any(array(
      select s.id from memory_snapshot s
      join memory_namespace n on n.id = s.namespace_id
      join memory_snapshot current on current.id = n.snapshot_id
      where s.build < current.build ${only}
        and not exists (
          select from task_memory m join task t on t.id = m.task_id
          where m.snapshot_id = s.id and t.status not in ('succeeded', 'failed'))
      limit ${limit} for update of s skip locked))`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** A snapshot whose workflow may be gone. */
export interface StalledBuild {
  namespace_id: string
  account_id: string
  build: number
}

/** Lists snapshots that were requested or begun long ago and are still not ready. */
export async function listStalledBuilds(
  db: Kysely<Database>,
  { wantedS, buildingS, limit }: { wantedS: number; buildingS: number; limit: number },
): Promise<StalledBuild[]> {
  const { rows } = await sql<StalledBuild>`
    select id as namespace_id, account_id, wanted_build as build from memory_namespace
    where wanted_build is not null and wanted_at < now() - make_interval(secs => ${wantedS})
    union
    select namespace_id, account_id, build from memory_snapshot
    where status = 'building' and created_at < now() - make_interval(secs => ${buildingS})
    limit ${limit}`.execute(db)
  return rows
}
