import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { firstIdAt } from '../../../domain/uuid.ts'
import type { Changes } from '../../../schemas/audit-log.ts'
import type { Database } from '../../tables.ts'
import type { AuditLogRow } from '../../tables/accounts.ts'

/** The actor of every request with the operations key, which has no name. */
export const OPERATOR = 'operations-key'

/** The actor of a request with an API key. */
export const keyActor = (keyId: string): string => `key:${keyId}`

interface Change {
  actor: string
  /** The id of the operation. */
  action: string
  subject: { kind: string; id: string }
  accountId: string | null
  /** If empty, nothing is recorded. */
  changes: Changes
}

/** Records a change in the transaction that makes it, so that neither commits without the other. */
export async function recordChange(
  trx: Transaction<Database>,
  { actor, action, subject, accountId, changes }: Change,
): Promise<void> {
  if (Object.keys(changes).length === 0) return
  await trx
    .insertInto('audit_log')
    .values({
      id: newId(),
      actor,
      action,
      subject_kind: subject.kind,
      subject_id: subject.id,
      account_id: accountId,
      changes: JSON.stringify(changes),
    })
    .execute()
}

export interface AuditFilter {
  subjectId: string | undefined
  accountId: string | undefined
  action: string | undefined
  actor: string | undefined
  since: Date | undefined
  until: Date | undefined
}

interface AuditPage extends AuditFilter {
  before: string | undefined
  limit: number
}

/** Lists recorded changes, newest first. */
export const listChanges = (...of: Parameters<typeof changesQuery>): Promise<AuditLogRow[]> =>
  changesQuery(...of).execute()

/**
 * Returns the query for a page. The list is ordered by the first filter given and the id; together with how the
 * filter's condition is written, this makes the planner use that filter's index (see `ofAccount`). Ids sort by time, so
 * time bounds become id bounds.
 */
export function changesQuery(
  db: Kysely<Database>,
  { subjectId, accountId, action, actor, since, until, before, limit }: AuditPage,
) {
  const filters = [
    ['subject_id', subjectId, sql`text`],
    ['account_id', accountId, sql`uuid`],
    ['action', action, sql`text`],
    ['actor', actor, sql`text`],
  ] as const
  const given = filters.filter(([, value]) => value !== undefined)

  let query = db.selectFrom('audit_log').selectAll().limit(limit)
  if (given[0]) query = query.orderBy(given[0][0])
  query = query.orderBy('id', 'desc')
  for (const [column, value, type] of given)
    query = query.where(sql<boolean>`${sql.ref(column)} = any(array[${value}]::${type}[])`)
  if (since !== undefined) query = query.where('id', '>=', firstIdAt(since))
  if (until !== undefined) query = query.where('id', '<', firstIdAt(until))
  if (before !== undefined) query = query.where('id', '<', before)
  return query
}
