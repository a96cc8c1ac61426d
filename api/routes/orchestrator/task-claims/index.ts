import { claimTask } from './claim-task.ts'
import { readTaskInput } from './read-task-input.ts'

export const taskClaims = [claimTask, readTaskInput]

/** Serves the claim at the root as well. */
export const rootTaskClaims = [{ ...claimTask, operationId: 'claimTaskAtRoot' }]
