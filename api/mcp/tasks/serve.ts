import {
  fromJsonSchema,
  MissingRequiredClientCapabilityError,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { guarded } from '../guarded.ts'
import type { Offer } from '../offer.ts'
import type { AccountRequestContext } from '../tool.ts'
import { takesTasks, TASKS_EXTENSION } from './declared.ts'
import { cancelTaskById, getTaskState, taskFields } from './kinds.ts'

interface TaskParams {
  taskId: string
}

const params = fromJsonSchema<TaskParams>({
  type: 'object',
  properties: { taskId: { type: 'string', maxLength: 200 } },
  required: ['taskId'],
})

/** Serves the methods of the tasks extension. None of our tasks requests input from its client. */
export function serveTasks(server: Server, on: AccountRequestContext, { taskKinds }: Offer): void {
  const serve = (method: string, handle: (taskId: string) => Promise<object>) =>
    server.setRequestHandler(method, { params }, ({ taskId }, mcp) =>
      guarded(on.request.log, async () => {
        requireTasks(mcp)
        return { ...(await handle(taskId)) }
      }),
    )
  serve('tasks/get', async (taskId) => taskFields(await getTaskState(taskKinds, taskId, on)))
  serve('tasks/update', async (taskId) => {
    await getTaskState(taskKinds, taskId, on)
    return {}
  })
  serve('tasks/cancel', async (taskId) => {
    await cancelTaskById(taskKinds, taskId, on)
    return {}
  })
}

function requireTasks(mcp: ServerContext): void {
  if (takesTasks(mcp)) return
  throw new MissingRequiredClientCapabilityError({
    requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } },
  })
}
