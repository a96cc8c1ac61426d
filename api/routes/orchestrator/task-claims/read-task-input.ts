import Type from 'typebox'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid, Vocabulary } from '../../../../schemas/common.ts'
import { TaskParams } from '../../../../schemas/inference-task.ts'
import { MEMORY_HEADER } from '../../../../schemas/nodes/task-claim.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'

const JSON_TYPE = 'application/json'

/** Serves the `input_url` of a claim. The lease token in the URL is the credential, so it expires with the lease. */
export const readTaskInput = route({
  operationId: 'readTaskInput',
  summary: 'Read the input of a claimed task',
  method: 'GET',
  path: '/tasks/{task_id}/input',
  auth: 'none',
  internal: true,
  params: TaskParams,
  query: Type.Object({
    lease_token: Uuid,
    memory: Type.Optional({
      ...Vocabulary('refused'),
      description:
        "Set after the model rejected the input with the account's memory; the input is then sent without it",
    }),
  }),
  success: { status: 200, schema: Type.Unknown(), contentType: JSON_TYPE },
  errors: ['not_found'],

  async handler({ params, query }, { db, memory }) {
    const input = await taskRepository.findLeasedInput(db, params.task_id, query.lease_token)
    if (!input) throw new ApiError('not_found', 'no such task belongs to this lease')
    const attached = await memory.ofTask(params.task_id)
    if (query.memory === 'refused') attached?.refused()
    const given = attached ? await attached.addTo(input) : input
    return reply(200, given, {
      'content-type': JSON_TYPE,
      ...(attached?.isGiven && { [MEMORY_HEADER]: 'given' }),
    })
  },
})
