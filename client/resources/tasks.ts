import type { Static } from 'typebox'
import type {
  InferenceTask,
  QueueStats,
  TaskCancelled,
  TaskList,
  TaskListQuery,
} from '../../schemas/inference-task.ts'
import type { Operations } from '../operations.ts'
import { waitFor, type WaitOptions } from '../wait.ts'

type TaskId = [task_id: string]

/** Inference tasks. */
export function tasks(on: Operations) {
  const get = on.call<TaskId, InferenceTask>({ id: 'getTask', method: 'GET', path: '/tasks/{task_id}' })
  return {
    /** Lists tasks without their inputs and results. */
    list: on.list<[], TaskListQuery, Static<typeof TaskList>, 'tasks'>({
      id: 'listTasks',
      method: 'GET',
      path: '/tasks',
      items: 'tasks',
    }),
    get,
    /** Waits until the task has succeeded or failed, and returns it. */
    wait: (taskId: string, options: WaitOptions<InferenceTask> = {}): Promise<InferenceTask> =>
      waitFor(
        () => get(taskId, { signal: options.signal }),
        ({ status }) => status === 'succeeded' || status === 'failed',
        options,
      ),
    cancel: on.call<TaskId, TaskCancelled>({
      id: 'cancelTask',
      method: 'POST',
      path: '/tasks/{task_id}:cancel',
      repeatable: true,
    }),
    queue: on.call<[], QueueStats>({ id: 'getQueueStats', method: 'GET', path: '/queue/stats' }),
  }
}
