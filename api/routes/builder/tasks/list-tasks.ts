import * as taskListRepository from '../../../../db/repositories/tasks/lists.ts'
import { type ListedTask, TaskList, TaskListQuery } from '../../../../schemas/inference-task.ts'
import { readSortedPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'

export const listTasks = route({
  operationId: 'listTasks',
  summary: 'List inference tasks without inputs and results',
  method: 'GET',
  path: '/tasks',
  auth: 'api-key',
  query: TaskListQuery,
  success: { status: 200, schema: TaskList },

  async handler({ caller: { accountId }, query }, { db }) {
    const { status, endpoint_id: endpointId, surface, since, until } = query
    const scope = ['tasks', accountId, status, endpointId, surface, since, until]
    const page = await readSortedPage(query, scope, (request) =>
      taskListRepository.listTasks(db, accountId, {
        ...request,
        status,
        endpointId,
        surface,
        since: since === undefined ? undefined : new Date(since),
        until: until === undefined ? undefined : new Date(until),
      }),
    )
    return { tasks: page.items.map(present), next_cursor: page.next_cursor }
  },
})

const present = ({ id, ...row }: taskListRepository.ListedTaskRow): ListedTask => ({
  task_id: id,
  ...row,
  error: row.status === 'failed' ? row.error : null,
  created_at: row.created_at.toISOString(),
  started_at: row.started_at?.toISOString() ?? null,
  completed_at: row.completed_at?.toISOString() ?? null,
})
