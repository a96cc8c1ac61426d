import type { Transaction } from 'kysely'
import * as cohortRepository from '../../../../../db/repositories/cohorts/cohorts.ts'
import * as taskRepository from '../../../../../db/repositories/tasks/tasks.ts'
import type { Database } from '../../../../../db/tables.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { CANCELLED_BY_OPERATOR, isTerminalTask } from '../../../../../domain/inference-task.ts'
import { TaskCancelled, TaskParams } from '../../../../../schemas/inference-task.ts'
import { audit } from '../../../../audit.ts'
import { cancelCohort } from '../../../../cohorts/cancel-cohort.ts'
import { route } from '../../../../http/route.ts'
import { cancelTask } from '../../../../inference/durable.ts'

export const cancelAccountTask = route({
  operationId: 'cancelAccountTask',
  summary: "Cancel an open inference task of any account; for a cohort's task, cancel the cohort",
  method: 'POST',
  path: '/admin/tasks/{task_id}:cancel',
  auth: 'operations-key',
  params: TaskParams,
  success: { status: 200, schema: TaskCancelled },
  errors: ['not_found', 'conflict'],

  async handler({ params: { task_id } }, services) {
    const task = await taskRepository.findAnyTask(services.db, task_id)
    if (!task) throw new ApiError('not_found', 'there is no task with this id')
    const record = (trx: Transaction<Database>) =>
      audit(trx, {
        action: 'cancelAccountTask',
        subject: { kind: 'task', id: task_id },
        accountId: task.account_id,
        before: { status: task.status },
        after: { status: 'failed' },
      })
    if (task.surface === 'cohort') {
      const of = { taskId: task_id, accountId: task.account_id }
      const cohort = await cohortRepository.findCohortOfTask(services.db, of)
      const request = { message: CANCELLED_BY_OPERATOR, inTransaction: record }
      if (cohort && (await cancelCohort(services, cohort.id, request))) {
        return { task_id, status: 'failed' as const }
      }
      throw new ApiError('conflict', `this task's status is already ${task.status}`)
    }
    const before = await cancelTask(services, task_id, CANCELLED_BY_OPERATOR, record)
    if (!before || isTerminalTask(before.status)) {
      throw new ApiError('conflict', `this task's status is already ${before?.status ?? 'ended'}`)
    }
    return { task_id, status: 'failed' as const }
  },
})
