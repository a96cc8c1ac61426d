import { cancelTask } from './cancel-task.ts'
import { getQueueStats } from './get-queue-stats.ts'
import { getTask } from './get-task.ts'
import { listTasks } from './list-tasks.ts'

export const tasks = [listTasks, getTask, cancelTask, getQueueStats]
