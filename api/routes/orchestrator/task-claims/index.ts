import { claimTask } from './claim-task.ts'
import { readTaskInput } from './read-task-input.ts'

export const taskClaims = [claimTask, readTaskInput]

/** The claim at the root of the address as well. */
export const rootTaskClaims = [{ ...claimTask, operationId: 'claimTaskAtRoot' }]
