import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { MemoryOutcome, MemoryReason } from '../../../schemas/memory.ts'
import type { Database } from '../../tables.ts'
import type { TaskMemoryRow } from '../../tables/memory.ts'
import { readableBy } from './grants.ts'

/** A task, and the key that requested it. */
export interface MemoryReader {
  taskId: string
  accountId: string
  keyId: string
}

/** Attaches the newest ready snapshot to a task that will run later. Safe to repeat. */
export async function attachMemory(
  db: Kysely<Database>,
  { taskId, accountId, keyId }: MemoryReader,
): Promise<void> {
  await sql`
    insert into task_memory (task_id, account_id, api_key_id, namespace_id, snapshot_id, outcome)
    select ${taskId}, account_id, ${keyId}, id, snapshot_id, 'attached' from memory_namespace
    where account_id = ${accountId} and enabled and snapshot_id is not null
    on conflict (task_id) do nothing`.execute(db)
}

/** Returns the memory that was attached to a task. */
export function findTaskMemory(db: Kysely<Database>, taskId: string): Promise<TaskMemoryRow | undefined> {
  return db.selectFrom('task_memory').selectAll().where('task_id', '=', taskId).executeTakeFirst()
}

/** An entry that is passed to a model. */
export interface ProvidedEntry {
  id: string
  sealed: Buffer
  tokens: number
  created_at: Date
}

/** A row that the statement returns; if there are no entries, a single row with only the outcome. */
interface MemoryReadRow {
  outcome: MemoryOutcome
  entry: string | null
  sealed: Buffer
  tokens: number
  at: Date
  gone: string[] | null
}

/** The maximum number of entries without a vector that follow the nearest ones. */
const MAX_WITHOUT_VECTOR = 20

interface TakeOptions {
  /** The snapshot that was attached at admission; the newest one when absent. */
  snapshotId?: string | null | undefined
  /** The nearest entries, followed by the newest ones without a vector; if absent, the newest of all are read. */
  ids?: readonly string[] | undefined
  /** Entries with more tokens than this are left out. */
  mostTokens: number
  limit: number
}

/**
 * Reads a snapshot's entries for a task and records the outcome, in one statement. The statement checks and locks the
 * grant, so a revocation waits for this read, and no read begins after a revocation. Entries that were deleted or
 * superseded since the snapshot was frozen are left out; those among `ids` are `gone`. Safe to repeat.
 */
export async function takeMemory(
  db: Kysely<Database>,
  reader: MemoryReader,
  { snapshotId = null, ids, mostTokens, limit }: TakeOptions,
): Promise<{ entries: ProvidedEntry[]; outcome: MemoryOutcome; gone: readonly string[] }> {
  const { taskId, accountId, keyId } = reader
  // As scalars these let the planner use the index of the newest entries for the order, whatever the memory's size.
  const entriesOf = (condition: RawBuilder<unknown>) => sql`
    select e.id, e.sealed, e.tokens, e.created_at from memory_entry e
    where e.namespace_id = (select namespace_id from frozen) and e.version <= (select version from frozen)
      and e.account_id = ${accountId} and e.superseded_by is null and e.tokens <= ${mostTokens} and ${condition}`
  const { rows } = await sql<MemoryReadRow>`
    with granted as materialized (${readableBy(reader)}), frozen as (
      select s.id, s.version, s.namespace_id from granted
      -- A snapshot that was removed before its task was written gives way to the newest.
      join memory_snapshot s on s.id = coalesce(
          (select a.id from memory_snapshot a where a.id = ${snapshotId}::uuid and a.status = 'ready'), granted.newest)
        and s.namespace_id = granted.id and s.account_id = ${accountId} and s.status = 'ready'
    ), chosen as materialized (
      ${
        ids
          ? sql`${entriesOf(sql`e.id = any(${ids}::uuid[])`)} union all (
        ${entriesOf(sql`e.embedded_with is null and not e.id = any(${ids}::uuid[])`)}
        order by e.version desc limit ${MAX_WITHOUT_VECTOR})`
          : sql`${entriesOf(sql`true`)}
      order by e.created_at desc, e.id desc limit ${limit}`
      }
    ), noted as (
      insert into task_memory (
        task_id, account_id, api_key_id, namespace_id, snapshot_id, outcome, reason, decided_at)
      select ${taskId}, ${accountId}, ${keyId}, n.id, coalesce((select id from frozen), ${snapshotId}::uuid, n.snapshot_id),
        case when not exists (select from granted) then 'denied'
          when not exists (select from frozen) then 'unavailable'
          when exists (select from chosen) then 'given' else 'empty' end,
        case when exists (select from frozen) then null
          when exists (select from granted) then 'no_snapshot'
          when not n.enabled then 'disabled'
          when exists (select from api_key k where k.id = ${keyId} and k.revoked_at is not null) then 'key_revoked'
          else 'no_grant' end, now()
      from memory_namespace n where n.account_id = ${accountId}
      on conflict (task_id) do update set outcome = excluded.outcome, reason = excluded.reason,
        decided_at = excluded.decided_at, snapshot_id = excluded.snapshot_id
      returning outcome
    )
    select noted.outcome, chosen.id as entry, chosen.sealed, chosen.tokens, chosen.created_at as at,
      ${ids ? goneAmong(ids, accountId) : sql`null::uuid[]`} as gone
    from noted left join chosen on true`.execute(db)
  const entries = rows.flatMap(({ entry: id, sealed, tokens, at }) =>
    id === null ? [] : [{ id, sealed, tokens, created_at: at }],
  )
  return { entries, outcome: rows[0]?.outcome ?? 'denied', gone: rows[0]?.gone ?? [] }
}

/** Selects which of these entries were deleted or superseded. */
const goneAmong = (ids: readonly string[], accountId: string): RawBuilder<unknown> => sql`(
  select array_agg(given.id) from unnest(${ids}::uuid[]) as given (id)
  where not exists (
    select from memory_entry e
    where e.id = given.id and e.account_id = ${accountId} and e.superseded_by is null))`

/** The memory outcome of a task that runs without memory. */
export type MemoryMiss =
  | { outcome: 'unavailable'; reason: Extract<MemoryReason, 'too_late' | 'unreadable'> }
  | { outcome: 'refused'; reason?: undefined }

/** Records why a task runs without memory. */
export async function noteWithout(
  db: Kysely<Database>,
  { taskId, accountId, keyId }: MemoryReader,
  { outcome, reason }: MemoryMiss,
): Promise<void> {
  await sql`
    insert into task_memory (task_id, account_id, api_key_id, namespace_id, snapshot_id, outcome, reason, decided_at)
    select ${taskId}, account_id, ${keyId}, id, snapshot_id, ${outcome}, ${reason ?? null}, now()
    from memory_namespace where account_id = ${accountId}
    on conflict (task_id) do update set outcome = excluded.outcome, reason = excluded.reason,
      decided_at = excluded.decided_at`.execute(db)
}
