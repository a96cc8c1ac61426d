import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { InferenceTask, TaskParams } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { completeResult, findPolledTask } from '../../../inference/long-results.ts'
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
  isHot: true,
  sharesDatabase: true,

  async handler({ caller, params, res, signal, surface }, { db, links, objects, longAnswers }) {
    const row = await findPolledTask(db, { id: params.task_id, accountId: caller.accountId })
    if (!row || !(await maySeeTask(db, caller, row)))
      throw new ApiError('not_found', 'there is no task with this id')
    const task = await completeResult({ db, longAnswers }, row, { signal, res, surface })
    const needs = hasUnreadyNode(task, links.placement)
      ? await nodeLoadRepository.findModelNeeds(db, task.model_key)
      : undefined
    return presentTask({ objects, links }, task, needs?.runtime_profile)
  },
})
