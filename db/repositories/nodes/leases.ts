import { randomUUID } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { LeaseRow } from '../../tables/nodes.ts'

/** Every column by name, because a statement with `*` is not prepared. */
const LEASE_COLUMNS = [
  'token',
  'kind',
  'subject_id',
  'account_id',
  'node_id',
  'attempt',
  'state',
  'lease_s',
  'expires_at',
  'created_at',
  'closed_at',
  'released_at',
] as const satisfies (keyof LeaseRow)[]

export type LeaseKind = LeaseRow['kind']

/** A request for a lease. */
export interface LeaseRequest {
  kind: LeaseKind
  subjectId: string
  /** The account that the work belongs to. */
  accountId: string
  nodeId: string
  leaseS: number
}

const inSeconds = (seconds: number) => sql<Date>`now() + make_interval(secs => ${seconds})`

/**
 * Gives a node the lease of a task or job; `undefined` while another lease is in force. An expired lease is closed
 * here, after which its token is void. The database clock decides, and the unique index on active leases lets only one
 * of several concurrent claims through.
 */
export async function openLease(
  trx: Transaction<Database>,
  { kind, subjectId, accountId, nodeId, leaseS }: LeaseRequest,
): Promise<LeaseRow | undefined> {
  await trx
    .updateTable('lease')
    .set({ state: 'expired', closed_at: sql<Date>`now()` })
    .where('kind', '=', kind)
    .where('subject_id', '=', subjectId)
    .where('state', '=', 'active')
    .where('expires_at', '<=', sql<Date>`now()`)
    .execute()
  return trx
    .insertInto('lease')
    .values({
      // The token is a secret, so it isn't a UUIDv7, which could be guessed from its age.
      token: randomUUID(),
      kind,
      subject_id: subjectId,
      account_id: accountId,
      node_id: nodeId,
      attempt: sql<number>`(
        select coalesce(max(attempt), 0) + 1 from lease where kind = ${kind} and subject_id = ${subjectId}::uuid)`,
      state: 'active',
      lease_s: leaseS,
      // `now()` would be the start of the transaction, which may have begun before the work was handed over.
      created_at: sql<Date>`clock_timestamp()`,
      expires_at: inSeconds(leaseS),
    })
    .onConflict((oc) => oc.doNothing())
    .returning(LEASE_COLUMNS)
    .executeTakeFirst()
}

/** Finds the lease with this token if it belongs to this node, in any state. */
export function findLease(
  db: Kysely<Database>,
  { token, nodeId }: { token: string; nodeId: string },
): Promise<LeaseRow | undefined> {
  return db
    .selectFrom('lease')
    .select(LEASE_COLUMNS)
    .where('token', '=', token)
    .where('node_id', '=', nodeId)
    .executeTakeFirst()
}

/** Finds the newest lease of a task or job. */
export function findLastLease(
  db: Kysely<Database>,
  kind: LeaseKind,
  subjectId: string,
): Promise<LeaseRow | undefined> {
  return db
    .selectFrom('lease')
    .select(LEASE_COLUMNS)
    .where('kind', '=', kind)
    .where('subject_id', '=', subjectId)
    .orderBy('attempt', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Returns whether a node is running a job and may still work for the job's account. */
export async function isAtWork(
  db: Kysely<Database>,
  { nodeId, jobId }: { nodeId: string; jobId: string },
): Promise<boolean> {
  const { rows } = await sql`
    select 1 from lease join node on node.id = lease.node_id
    where lease.kind = 'job' and lease.subject_id = ${jobId}::uuid and lease.node_id = ${nodeId}::uuid and lease.state = 'active'
      and node.status <> 'removed' and (node.sharing = 'shared' or node.account_id = lease.account_id)`.execute(
    db,
  )
  return rows.length > 0
}

/** Extends a lease from now on, even an expired one, unless another node has taken over. */
export function renewLease(
  db: Kysely<Database>,
  { token, nodeId }: { token: string; nodeId: string },
  leaseS?: number,
): Promise<LeaseRow | undefined> {
  const seconds = leaseS === undefined ? sql<number>`lease_s` : sql<number>`${leaseS}::integer`
  return db
    .updateTable('lease')
    .set({ lease_s: seconds, expires_at: sql<Date>`now() + make_interval(secs => ${seconds})` })
    .where('token', '=', token)
    .where('node_id', '=', nodeId)
    .where('state', '=', 'active')
    .returning(LEASE_COLUMNS)
    .executeTakeFirst()
}

/** Locks a lease that is in force; `undefined` means that a result under it comes too late. */
export function lockActiveLease(
  trx: Transaction<Database>,
  { token, nodeId }: { token: string; nodeId: string },
): Promise<LeaseRow | undefined> {
  return trx
    .selectFrom('lease')
    .select(LEASE_COLUMNS)
    .where('token', '=', token)
    .where('node_id', '=', nodeId)
    .where('state', '=', 'active')
    .where('expires_at', '>', sql<Date>`now()`)
    .forUpdate()
    .executeTakeFirst()
}

/** Closes a lease with its result, which also confirms that its processes have exited. */
export function closeLease(
  trx: Transaction<Database>,
  { token, nodeId }: { token: string; nodeId: string },
  state: 'completed' | 'failed',
): Promise<LeaseRow | undefined> {
  return trx
    .updateTable('lease')
    .set({ state, closed_at: sql<Date>`now()`, released_at: sql<Date>`now()` })
    .where('token', '=', token)
    .where('node_id', '=', nodeId)
    .where('state', '=', 'active')
    .returning(LEASE_COLUMNS)
    .executeTakeFirst()
}

/** Records that the processes of a revoked lease have exited. Safe to repeat, because the first time is stored. */
export async function releaseLease(db: Kysely<Database>, token: string, nodeId: string): Promise<void> {
  await db
    .updateTable('lease')
    .set({ released_at: sql<Date>`coalesce(released_at, now())` })
    .where('token', '=', token)
    .where('node_id', '=', nodeId)
    .execute()
}

/**
 * Takes a lease from its holder: `revoked` by a decision, `expired` when its node is known to be lost. Returns the
 * lease, so that its node can be notified.
 */
export function takeLease(
  trx: Kysely<Database>,
  kind: LeaseKind,
  subjectId: string,
  state: 'revoked' | 'expired',
): Promise<LeaseRow | undefined> {
  return trx
    .updateTable('lease')
    .set({ state, closed_at: sql<Date>`now()` })
    .where('kind', '=', kind)
    .where('subject_id', '=', subjectId)
    .where('state', '=', 'active')
    .returning(LEASE_COLUMNS)
    .executeTakeFirst()
}
