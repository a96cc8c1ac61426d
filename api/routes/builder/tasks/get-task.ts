import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { InferenceTask, TaskParams } from '../../../../schemas/inference-task.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import { route } from '../../../http/route.ts'
import { inTurnOfResult } from '../../../inference/long-results.ts'
import { maySeeTask } from '../../../manifest/may-see-task.ts'
import type { Services } from '../../../services.ts'
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

  async handler({ caller, params, signal }, services) {
    const { accountId } = caller
    const bytes = await taskRepository.resultBytes(services.db, { id: params.task_id, accountId })
    return inTurnOfResult(services.longAnswers, { accountId, bytes, signal }, () =>
      readTask(services, caller, params.task_id),
    )
  },
})

async function readTask(
  { db, links, objects }: Pick<Services, 'db' | 'links' | 'objects'>,
  caller: AccountCaller,
  id: string,
): Promise<InferenceTask> {
  const row = await taskRepository.findTask(db, { id, accountId: caller.accountId })
  if (!row || !(await maySeeTask(db, caller, row)))
    throw new ApiError('not_found', 'there is no task with this id')
  const needs = hasUnreadyNode(row, links.placement)
    ? await nodeLoadRepository.findModelNeeds(db, row.model_key)
    : undefined
  return presentTask({ objects, links }, row, needs?.runtime_profile)
}
