import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'

const LEASE_FILE =
  /^(?:accounts\/[0-9a-f-]{36}\/jobs\/([0-9a-f-]{36})|tasks\/[0-9a-f-]{36}\/([0-9a-f-]{36}))\/(\d{1,9})\/(?:checkpoint|artifact|output)\//

/** Returns whether an object is a file that a node PUTs under a lease. */
export const isLeaseFile = (key: string): boolean => LEASE_FILE.test(key)

/**
 * Returns whether a file may still be PUT under the lease of its attempt: the lease is active, its node has not
 * been removed, its run has not been deleted, and the file is not yet a checkpoint. In a transaction, the lease
 * stays locked until the transaction ends.
 */
export async function mayPutLeaseFile(
  db: Kysely<Database> | Transaction<Database>,
  key: string,
): Promise<boolean> {
  const [, jobId, taskId, attempt] = LEASE_FILE.exec(key) ?? []
  // The files of tasks and of cohort stages share a folder.
  const kinds = jobId ? ['job'] : ['task', 'stage']
  const { rows } = await sql`
    select 1 from lease join node on node.id = lease.node_id
    where lease.kind = any(${kinds}::text[]) and lease.subject_id = ${jobId ?? taskId}::uuid
      and lease.attempt = ${Number(attempt)} and lease.state = 'active' and node.status <> 'removed'
      and not exists (select 1 from job_checkpoint c where c.object_key = ${key})
      and not exists (select 1 from training_run r where r.id = ${jobId ?? null}::uuid and r.deleted_at is not null)
    for share of lease`.execute(db)
  return rows.length > 0
}
