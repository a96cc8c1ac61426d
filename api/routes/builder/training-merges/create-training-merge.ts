import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import * as mergeRepository from '../../../../db/repositories/training/merges.ts'
import { invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import {
  DEFAULT_DENSITY,
  DEFAULT_SEED,
  faultOfMerge,
  MERGE_ARITY,
} from '../../../../domain/training/merge.ts'
import { PRIORITY } from '../../../../domain/training/training-run.ts'
import {
  CreateTrainingMerge,
  type MergeMethod,
  TrainingMergeAccepted,
} from '../../../../schemas/training-merge.ts'
import { QUEUES } from '../../../../workflows/contract/policy.ts'
import { mergeStart } from '../../../../workflows/contract/starts.ts'
import { canonicalDigest } from '../../../http/canonical.ts'
import { route } from '../../../http/route.ts'
import { assertQuota } from '../training-runs/assert-quota.ts'
import { queuedMessage, jobWaitOf } from '../training-runs/job-wait.ts'
import { resolveSources } from './resolve-sources.ts'

const OPERATING_MODE = 'balanced'

export const createTrainingMerge = route({
  operationId: 'createTrainingMerge',
  summary: 'Merge models, or adapters into a base',
  method: 'POST',
  path: '/training/merges',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  body: CreateTrainingMerge,
  success: { status: 202, schema: TrainingMergeAccepted },
  errors: ['training_quota_exceeded'],

  async handler({ caller: { accountId }, body, trx }, { catalog, config, objects, now }) {
    const method = body.method ?? 'adapter_merge'
    assertMergeable(body, method)
    const options = { trx, accountId, catalog, storage: { config, objects } }
    const { sources, model, base } = await resolveSources(options, body, method)
    const model_config_id = model?.model_config_id ?? catalog.tunerOf('chat')?.config.model_id
    if (model_config_id === undefined) throw noModel(method)
    const parentId = base?.version?.job_id
    const parent = parentId && (await jobRepository.findOwnJob(trx, accountId, parentId))
    const parameters = parametersOf(body, method)
    const { field } = MERGE_ARITY[method]
    await assertQuota(trx, accountId)
    const task_queue = QUEUES.mergeCpu
    const wait = await jobWaitOf(trx, { account_id: accountId, task_queue }, now())
    const job = await jobRepository.insertJob(trx, {
      id: newId(),
      account_id: accountId,
      job_type: 'merge',
      job_name: body.name,
      status: 'pending',
      model_config_id,
      dataset_id: null,
      hyperparameters: JSON.stringify({ ...parameters, [field]: body[field] }),
      operating_mode: OPERATING_MODE,
      hardware_preference: body.hardware_preference ?? 'auto',
      task_queue,
      ...wait.columns,
      base: base ? JSON.stringify(base.ref) : null,
      parent_job_id: parent ? parent.id : null,
      config_digest: canonicalDigest([accountId, 'merge', parameters, sources]).toString('hex'),
      created_at: now(),
    })
    await mergeRepository.insertMergeSources(trx, job.id, sources)
    await jobRecordRepository.insertJobEvents(trx, [{ jobId: job.id, type: 'queued' }], now())
    await jobRecordRepository.insertJobNotes(trx, job.id, [...notesOn(body, method), ...wait.notes], now())
    const priority = PRIORITY[OPERATING_MODE]
    await workflowStartRepository.enqueueWorkflow(
      trx,
      mergeStart({
        jobId: job.id,
        accountId,
        modelConfigId: job.model_config_id,
        jobName: job.job_name,
        priority,
        waiting: wait.reason,
      }),
    )
    return {
      job_id: job.id,
      job_type: 'merge' as const,
      status: job.status,
      message: queuedMessage(wait, messageFor(body)),
      estimated_cost_credits: null,
      queue_position: await jobRepository.countAhead(trx, { ...job, priority }),
    }
  },
})

function assertMergeable(
  { adapters = [], sources = [], base, weights }: CreateTrainingMerge,
  method: MergeMethod,
): void {
  const given = { adapters: adapters.length, sources: sources.length, hasBase: Boolean(base), weights }
  const fault = faultOfMerge(method, given)
  if (fault) throw invalid(['body', ...fault.path], fault.message)
}

/**
 * Without a version among the models, the platform does not know how to serve the result, unless it trains models of
 * that kind.
 */
const noModel = (method: MergeMethod) =>
  invalid(
    ['body', method === 'adapter_merge' ? 'base' : 'sources'],
    'at least one of the models must be a version or a job',
  )

const messageFor = ({ hardware_preference }: CreateTrainingMerge): string =>
  hardware_preference?.startsWith('gpu')
    ? 'Merge queued; merges run on the CPU, so it does not wait for a GPU'
    : 'Merge queued'

function parametersOf(body: CreateTrainingMerge, method: MergeMethod): Record<string, unknown> {
  return {
    method,
    precision: body.precision ?? 'bf16',
    ...(body.weights && { weights: body.weights }),
    ...((method === 'ties' || method === 'dare') && { density: body.density ?? DEFAULT_DENSITY }),
    ...(method === 'dare' && { seed: body.seed ?? DEFAULT_SEED }),
  }
}

/** Returns notes about fields that are accepted but have no effect. */
function notesOn({ base, density, seed }: CreateTrainingMerge, method: MergeMethod): string[] {
  const unused = [
    ...(method === 'slerp' && base ? ['base'] : []),
    ...(density !== undefined && method !== 'ties' && method !== 'dare' ? ['density'] : []),
    ...(seed !== undefined && method !== 'dare' ? ['seed'] : []),
  ]
  return unused.map((name) => `${method} does not use ${name}; it is ignored.`)
}
