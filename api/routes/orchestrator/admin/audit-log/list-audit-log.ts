import * as auditLogRepository from '../../../../../db/repositories/platform/audit-log.ts'
import type { AuditLogRow } from '../../../../../db/tables/accounts.ts'
import { type AuditEntry, AuditLogQuery, AuditEntry as Schema } from '../../../../../schemas/audit-log.ts'
import { pageOf } from '../../../../../schemas/common.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'

export const listAuditLog = route({
  operationId: 'listAuditLog',
  summary: 'List changes by operators, and by accounts to their keys, newest first',
  method: 'GET',
  path: '/admin/audit-log',
  auth: 'operations-key',
  query: AuditLogQuery,
  success: { status: 200, schema: pageOf('entries', Schema) },

  async handler({ query }, { db }) {
    const { subject_id: subjectId, account_id: accountId, action, actor, since, until } = query
    const scope = ['audit-log', subjectId, accountId, action, actor, since, until]
    const { items, next_cursor } = await readPage(query, scope, (page) =>
      auditLogRepository.listChanges(db, {
        ...page,
        subjectId,
        accountId,
        action,
        actor,
        since: since === undefined ? undefined : new Date(since),
        until: until === undefined ? undefined : new Date(until),
      }),
    )
    return { entries: items.map(present), next_cursor }
  },
})

const present = (row: AuditLogRow): AuditEntry => ({
  entry_id: row.id,
  at: row.at.toISOString(),
  actor: row.actor,
  action: row.action,
  subject: { kind: row.subject_kind, id: row.subject_id },
  account_id: row.account_id,
  changes: row.changes,
})
