import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { InferenceTask, TaskParams } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { inTurnOfResult, LONG_RESULT_BYTES } from '../../../inference/long-results.ts'
import { maySeeTask } from '../../../manifest/may-see-task.ts'
import { hasUnreadyNode, presentTask } from './present.ts'

export const getTask = route({
  operationId: 'getTask',
  summary: 'Get an inference task',
  method: 'GET',
  path: '/tasks/{task_id}',
  auth: 'api-key',
  params: TaskParams,
  success: { status: 200, schema: InferenceTask },
  errors: ['not_found'],
  forLimitedKeys: true,

  async handler({ caller, params, res, signal, surface }, { db, links, objects, longAnswers }) {
    const { accountId } = caller
    const row = await taskRepository.findShownTask(db, { id: params.task_id, accountId }, LONG_RESULT_BYTES)
    if (!row || !(await maySeeTask(db, caller, row)))
      throw new ApiError('not_found', 'there is no task with this id')
    if (row.result_bytes > LONG_RESULT_BYTES) {
      const read = () => taskRepository.findResult(db, row.id)
      row.result = await inTurnOfResult(
        longAnswers,
        { accountId, bytes: row.result_bytes, signal, res, surface },
        read,
      )
    }
    const needs = hasUnreadyNode(row, links.placement)
      ? await nodeLoadRepository.findModelNeeds(db, row.model_key)
      : undefined
    return presentTask({ objects, links }, row, needs?.runtime_profile)
  },
})
