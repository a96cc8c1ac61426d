import type { Command } from 'commander'
import type { TaskAudit } from '../../../schemas/admin.ts'
import { open } from '../../context.ts'
import { id } from '../../ids.ts'
import { print, table } from '../../print.ts'

/** Shows the ledger entries of a task and the memory it used. */
export function auditCommand(audit: Command): void {
  audit
    .argument('<task_id>', 'the task')
    .action(async (taskId: string, _options: object, command: Command) => {
      const context = open(command)
      const found = await context.client.call<TaskAudit>('GET', `/audit/task/${id(taskId)}`)
      const rows = found.entries.map((entry) => [
        entry.created_at,
        entry.stage,
        entry.kind,
        entry.purse,
        entry.amount_micro,
      ])
      const sum = `Task ${found.status}; the entries sum to ${found.sums.total_micro}.`
      const { memory } = found
      const why = memory?.reason ? ` (${memory.reason})` : ''
      const given = memory
        ? `\nMemory ${memory.outcome}${why}: snapshot ${memory.snapshot_id ?? 'none'}.`
        : '\nThe task did not use memory: no grant, memory disabled, or not a language model.'
      print(
        context,
        found,
        `${table(['TIME', 'STAGE', 'KIND', 'PURSE', 'MICRO-CREDITS'], rows)}\n${sum}${given}`,
      )
    })
}
