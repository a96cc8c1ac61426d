import { CANCELLED_BY_CALLER } from '../../../domain/inference-task.ts'
import type { Invocation } from '../../../schemas/action.ts'
import { CANCELLED_JOB, isEnded } from '../../actions/present.ts'
import { findVisibleInvocation } from '../../actions/read-invocation.ts'
import { cancelTask } from '../../routes/builder/tasks/cancel-task.ts'
import { cancelTrainingRun } from '../../routes/builder/training-runs/cancel-training-run.ts'
import { invocationResult } from '../invocation-result.ts'
import { operate } from '../operate.ts'
import type { AccountRequestContext } from '../tool.ts'
import type { TaskKind } from './kinds.ts'
import type { TaskState } from './state.ts'

/** The MCP tasks of manifest tools. Each task's state comes from the row of its invocation. */
export const invocationTasks: TaskKind = {
  name: 'invocation',
  get: async (id, on) => stateOfInvocation(await visibleInvocation(id, on), on),
  async cancel(id, on) {
    const { task_id, job_id } = await visibleInvocation(id, on)
    if (job_id !== null) await operate(cancelTrainingRun, on, { params: { run_id: job_id } })
    else await operate(cancelTask, on, { params: { task_id } })
  },
}

const visibleInvocation = (
  id: string,
  { caller, services, request: { signal, res } }: AccountRequestContext,
): Promise<Invocation> => findVisibleInvocation(services, caller, id, { signal, res, surface: 'mcp' })

export function stateOfInvocation(invocation: Invocation, { services }: AccountRequestContext): TaskState {
  const { invocation_id, status, error, created_at, completed_at } = invocation
  const shared = {
    taskId: `invocation.${invocation_id}`,
    statusMessage: status,
    createdAt: created_at,
    lastUpdatedAt: completed_at ?? services.now().toISOString(),
  }
  if (!isEnded(invocation)) return { ...shared, status: 'working' }
  if (error !== null && CANCELLED.has(error)) return { ...shared, status: 'cancelled' }
  return { ...shared, status: 'completed', result: invocationResult(invocation) }
}

/** The errors of invocations whose task or job was cancelled. */
const CANCELLED: ReadonlySet<string> = new Set([CANCELLED_BY_CALLER, CANCELLED_JOB])
