import Type from 'typebox'
import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { CANCELLED_BY_CALLER, isTerminalTask } from '../../../../domain/inference-task.ts'
import { USER_ID_LENGTH } from '../../../../schemas/cohorts/cohort.ts'
import { TaskCancelled, TaskParams } from '../../../../schemas/inference-task.ts'
import { cancelCohort } from '../../../cohorts/cancel-cohort.ts'
import { route } from '../../../http/route.ts'
import { cancelTask as cancel } from '../../../inference/durable.ts'
import { maySeeTask } from '../../../manifest/may-see-task.ts'

export const cancelTask = route({
  operationId: 'cancelTask',
  summary: 'Cancel an inference task that has not ended',
  method: 'POST',
  path: '/tasks/{task_id}:cancel',
  auth: 'api-key',
  params: TaskParams,
  headers: Type.Object({ 'x-user-id': Type.Optional(Type.String()) }),
  success: { status: 200, schema: TaskCancelled },
  errors: ['not_found', 'conflict'],
  forLimitedKeys: true,

  async handler({ caller, params, headers }, services) {
    const task = await taskRepository.findTask(services.db, {
      id: params.task_id,
      accountId: caller.accountId,
    })
    if (!task || !(await maySeeTask(services.db, caller, task)))
      throw new ApiError('not_found', 'there is no task with this id')
    if (task.surface === 'cohort') {
      const cohort = await cohortRepository.findCohortOfTask(services.db, {
        taskId: task.id,
        accountId: caller.accountId,
      })
      // Clients may send the header with every request; only a cohort run requires it to match.
      const userId = headers['x-user-id']?.slice(0, USER_ID_LENGTH.maxLength)
      if (!cohort || !(await cancelCohort(services, cohort.id, { userId }))) {
        const { status } = (cohort && (await cohortRepository.readCohort(services.db, cohort.id))) ?? task
        throw endedError(status)
      }
      return { task_id: task.id, status: 'failed' as const }
    }
    const before = await cancel(services, task.id, CANCELLED_BY_CALLER)
    if (!before || isTerminalTask(before.status)) throw endedError(before?.status ?? 'ended')
    return { task_id: task.id, status: 'failed' as const }
  },
})

const endedError = (status: string): ApiError =>
  new ApiError('conflict', `this task ${status === 'cancelled' ? 'was' : 'has'} ${status} already`)
