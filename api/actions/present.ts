import type { InvocableEndpoint } from '../../db/repositories/actions/actions.ts'
import type { InvocationView } from '../../db/repositories/actions/invocations.ts'
import { kindOf } from '../../domain/actions/kind.ts'
import { microToUsd } from '../../domain/money.ts'
import type { Config } from '../../platform/config.ts'
import type { Action, Invocation, InvocationStatus } from '../../schemas/action.ts'
import type { TaskStatus } from '../../schemas/inference-task.ts'
import type { TrainingRunStatus } from '../../schemas/training-run.ts'
import { presentResult } from '../inference/task-result.ts'
import type { Services } from '../services.ts'
import type { OperationAction } from './operation-actions.ts'

const invokeUrl = (slug: string): string => `/api/builder/v1/actions/${slug}:invoke`

export const invocationNote = (id: string): string =>
  `Poll GET /api/builder/v1/invocations/${id} for the result.`

/** Returns an endpoint as an action of this account. */
export const presentEndpointAction = (
  row: InvocableEndpoint,
  { accountId, config }: { accountId: string; config: Pick<Config, 'HEARTH_CREDIT_USD'> },
): Action => ({
  slug: row.name,
  kind: kindOf(row),
  display_name: row.display_name,
  description: row.description,
  visibility: row.visibility,
  status: row.status,
  owned: row.account_id === accountId,
  endpoint_id: row.id,
  task_type: row.task_type,
  tags: row.tags,
  price_per_request: microToUsd(row.price_micro, config.HEARTH_CREDIT_USD),
  invoke_url: invokeUrl(row.name),
})

export const presentOperationAction = ({ slug, displayName, description }: OperationAction): Action => ({
  slug,
  kind: 'operation',
  display_name: displayName,
  description,
  visibility: 'public',
  status: 'active',
  owned: false,
  endpoint_id: null,
  task_type: null,
  tags: [],
  price_per_request: null,
  invoke_url: invokeUrl(slug),
})

const STATUS_OF_TASK: Partial<Record<TaskStatus, InvocationStatus>> = {
  queued: 'queued',
  assigned: 'queued',
  succeeded: 'completed',
  failed: 'failed',
}
const STATUS_OF_JOB = {
  pending: 'queued',
  running: 'running',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'failed',
} as const satisfies Record<TrainingRunStatus, InvocationStatus>

/** Maps a task's status to its invocation's status. */
export const invocationStatusOf = (status: TaskStatus): InvocationStatus =>
  STATUS_OF_TASK[status] ?? 'running'

export const isEnded = ({ status }: Pick<Invocation, 'status'>): boolean =>
  status === 'completed' || status === 'failed'

/** Returns an invocation with the state of its work. */
export async function presentInvocation(
  services: Pick<Services, 'objects'>,
  row: InvocationView,
): Promise<Invocation> {
  const { id, slug, kind, task_id, job_id } = row
  const work = job_id === null ? await taskOf(services, row) : jobOf(row, job_id)
  const isOpen = !isEnded(work)
  return {
    invocation_id: id,
    slug,
    kind,
    task_id,
    job_id,
    ...work,
    ...(isOpen && { note: invocationNote(id) }),
    created_at: row.created_at.toISOString(),
    completed_at: (row.task_completed_at ?? row.job_completed_at)?.toISOString() ?? null,
  }
}

type InvocationOutcome = Pick<Invocation, 'status' | 'result' | 'error'>

const taskOf = async (
  { objects }: Pick<Services, 'objects'>,
  { task_status, task_result, task_outputs, task_error }: InvocationView,
): Promise<InvocationOutcome> => ({
  status: invocationStatusOf(task_status ?? 'queued'),
  result: await presentResult(objects, { result: task_result, outputs: task_outputs }),
  error: task_status === 'failed' ? task_error : null,
})

/** The error text of an invocation whose job was cancelled. */
export const CANCELLED_JOB = 'the job was cancelled'

function jobOf({ job_status, job_error, version_id }: InvocationView, jobId: string): InvocationOutcome {
  const status = STATUS_OF_JOB[job_status ?? 'pending']
  return {
    status,
    result: status === 'completed' ? { job_id: jobId, version_id } : null,
    error: job_status === 'cancelled' ? CANCELLED_JOB : status === 'failed' ? job_error : null,
  }
}
