import { cancelTask } from './cancel-task.ts'
import { getQueueStats } from './get-queue-stats.ts'
import { getTask } from './get-task.ts'

export const tasks = [getTask, cancelTask, getQueueStats]
