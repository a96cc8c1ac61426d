import Type from 'typebox'
import * as auditRepository from '../../../../db/repositories/platform/audit.ts'
import type { LedgerLineRow } from '../../../../db/tables/inference.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { TaskAudit } from '../../../../schemas/admin.ts'
import { Uuid } from '../../../../schemas/common.ts'
import type { MemoryOutcome } from '../../../../schemas/memory.ts'
import { route } from '../../../http/route.ts'

/** Outcomes that have a reason. Processes of earlier versions change the outcome but leave an old reason. */
const HAS_REASON = new Set<MemoryOutcome>(['denied', 'unavailable'])

export const auditTask = route({
  operationId: 'auditTask',
  summary:
    "Get a task's ledger entries (hold, capture and payouts, or refund) and the memory that it received",
  method: 'GET',
  path: '/admin/audit/task/{task_id}',
  auth: 'operations-key',
  params: Type.Object({ task_id: Uuid }),
  success: { status: 200, schema: TaskAudit },
  errors: ['not_found'],

  async handler({ params: { task_id } }, { db }) {
    const found = await auditRepository.findTaskAudit(db, task_id)
    if (!found) throw new ApiError('not_found', 'there is no task with this id')
    const { task, entries, memory } = found
    return {
      task_id,
      account_id: task.account_id,
      endpoint_id: task.endpoint_id,
      status: task.status,
      price_micro: task.price_micro,
      entries: entries.map((entry) => ({
        entry_id: entry.id,
        stage: entry.stage,
        kind: entry.kind,
        purse: entry.purse,
        amount_micro: entry.amount_micro,
        created_at: entry.created_at.toISOString(),
      })),
      sums: {
        total_micro: entries.reduce((sum, { amount_micro }) => sum + amount_micro, 0),
        by_kind: sumBy(entries, 'kind'),
        by_purse: sumBy(entries, 'purse'),
      },
      memory: memory
        ? {
            snapshot_id: memory.snapshot_id,
            outcome: memory.outcome,
            reason: HAS_REASON.has(memory.outcome) ? memory.reason : null,
            decided_at: memory.decided_at?.toISOString() ?? null,
          }
        : null,
      created_at: task.created_at.toISOString(),
      completed_at: task.completed_at?.toISOString() ?? null,
    }
  },
})

function sumBy(entries: readonly LedgerLineRow[], column: 'kind' | 'purse'): Record<string, number> {
  const sums = new Map<string, number>()
  for (const entry of entries) sums.set(entry[column], (sums.get(entry[column]) ?? 0) + entry.amount_micro)
  return Object.fromEntries(sums)
}
