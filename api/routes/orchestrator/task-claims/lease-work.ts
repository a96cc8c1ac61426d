import type { Transaction } from 'kysely'
import * as taskMemoryRepository from '../../../../db/repositories/memory/task-memory.ts'
import * as unusableVersionRepository from '../../../../db/repositories/models/unusable-versions.ts'
import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import * as keyMeterRepository from '../../../../db/repositories/platform/key-meters.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import * as taskUploadRepository from '../../../../db/repositories/tasks/uploads.ts'
import * as taskWriteRepository from '../../../../db/repositories/tasks/writes.ts'
import type { Database } from '../../../../db/tables.ts'
import type { TaskOutputFile } from '../../../../db/tables/inference.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { NO_TOKENS, tokensIn } from '../../../../domain/chat/chat.ts'
import { invalid } from '../../../../domain/errors.ts'
import { faultWithMemory } from '../../../../domain/models/answer.ts'
import { type LeaseFile, leaseFileKey, taskFolder } from '../../../../domain/object-keys.ts'
import { namesModel } from '../../../../domain/task-types/index.ts'
import type { CompleteLease, CompleteTask, TaskOutput } from '../../../../schemas/nodes/lease.ts'
import { assertStored } from '../jobs/stored-file.ts'
import type { LeaseWork } from '../leases/work.ts'

/** Checking that the environment exists takes less time than this; a longer wait means that it was installed. */
const MAX_CHECK_MS = 1_000

/** Failure codes that do not count against the task. */
const INTERRUPTIONS = new Set(['cancelled', 'drained', 'preempted'])

/** Returns the result of a task or stage; throws a 422 for a job's result. */
export function taskResult(body: CompleteLease): CompleteTask {
  if ('result' in body) return body
  throw invalid(['body', 'result'], 'Field required', 'missing')
}

/** Adds the endpoint's name to a response, because models don't know which endpoint they serve. */
async function namingModel(
  trx: Transaction<Database>,
  { endpoint_id }: Pick<taskRepository.TaskFacts, 'endpoint_id'>,
  result: CompleteTask['result'],
): Promise<CompleteTask['result']> {
  const { name, task_type } = await taskRepository.findEndpointFacts(trx, endpoint_id)
  return namesModel(task_type) ? { ...result, model: name } : result
}

const storedOutput = (
  lease: LeaseRow,
  { filename, sha256, content_type, size_bytes, modality }: TaskOutput,
): TaskOutputFile => ({
  filename,
  object_key: taskWork.fileKey(lease, { kind: 'output', filename, sha256 }),
  content_type,
  size_bytes,
  modality,
})

/** The rules of a lease on a task. Completing it ends the task: row, ledger, event and counts in one transaction. */
export const taskWork = {
  fileKey: ({ account_id, subject_id, attempt }, file) =>
    `${taskFolder({ accountId: account_id, taskId: subject_id })}${leaseFileKey(attempt, file)}`,

  progress: ({ db }, { subject_id }, detail) => taskRepository.recordProgress(db, subject_id, detail),

  noteSigned: (db, { subject_id, account_id }, until) =>
    taskUploadRepository.noteTaskUpload(db, { taskId: subject_id, accountId: account_id, until }),

  async check({ lease, body, services: { objects } }) {
    const keyOf = (file: Omit<LeaseFile, 'kind'>) => taskWork.fileKey(lease, { kind: 'output', ...file })
    await Promise.all((taskResult(body).outputs ?? []).map((file) => assertStored(objects, keyOf, file)))
  },

  async lock(trx, lease) {
    await taskRepository.lockTask(trx, lease.subject_id)
  },

  async complete(step) {
    const { trx, lease, services } = step
    const { result, outputs, inference_time_ms, model_state, environment_ms = 0 } = taskResult(step.body)
    const now = services.now()
    const [task, node] = [
      await taskRepository.lockTask(trx, lease.subject_id),
      await taskRepository.findNodeOwner(trx, lease.node_id),
    ]
    if (!task) return
    const tokens = tokensIn(result)
    const outcome = {
      status: 'succeeded' as const,
      result: Buffer.from(JSON.stringify(await namingModel(trx, task, result))),
      inferenceTimeMs: inference_time_ms,
      modelState: model_state,
      tokens,
    }
    const { node_id: nodeId } = lease
    if (outputs)
      await taskRepository.recordOutputs(
        trx,
        task.id,
        outputs.map((file) => storedOutput(lease, file)),
      )
    await taskWriteRepository.settleTasks(trx, [
      taskRepository.settlementOf(task, outcome, { now, nodeId, ownerAccountId: node?.account_id }),
    ])
    if (task.key_id !== null && tokens !== NO_TOKENS)
      await keyMeterRepository.addTokens(trx, task.key_id, { tokens: tokens.in + tokens.out, now })
    // Don't record a load that had to wait for its environment, because the next one may not have to.
    if (model_state === 'resident' || !node || environment_ms > MAX_CHECK_MS) return
    await nodeLoadRepository.recordLoad(trx, {
      model_key: task.model_key,
      start_state: model_state,
      hardware: node.hardware,
      mean_ms: Math.max(0, now.getTime() - lease.created_at.getTime() - inference_time_ms),
    })
  },

  async fail({ trx, lease, body, services }) {
    const { code, retryable } = body
    const task = await taskRepository.lockTask(trx, lease.subject_id)
    if (!task) return
    // A model's message may quote its input, including memory. A message about a rejected input is safe: rejected
    // inputs are retried without memory.
    const memory = code === 'model_failed' && (await taskMemoryRepository.findTaskMemory(trx, task.id))
    const message = memory && memory.outcome === 'given' ? faultWithMemory() : body.message
    const isUnusable =
      code === 'unusable' &&
      (await unusableVersionRepository.markUnusable(trx, {
        modelKey: task.model_key,
        nodeId: lease.node_id,
        reason: message,
      }))
    // If this node's report about the weights does not count, let another node try.
    if (retryable || (code === 'unusable' && !isUnusable)) {
      if (!INTERRUPTIONS.has(code)) await taskRepository.noteFailure(trx, lease.subject_id, message)
      return
    }
    const now = services.now()
    await taskWriteRepository.settleTasks(trx, [
      taskRepository.settlementOf(task, { status: 'failed', error: message }, { now, nodeId: lease.node_id }),
    ])
  },
} satisfies LeaseWork
