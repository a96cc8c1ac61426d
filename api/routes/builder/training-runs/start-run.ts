import type { Transaction } from 'kysely'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { completeColumns } from '../../../../domain/datasets/columns.ts'
import { invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { PRIORITY } from '../../../../domain/training/training-run.ts'
import type { CreateTrainingRun, TrainingRunAccepted } from '../../../../schemas/training-run.ts'
import { QUEUES } from '../../../../workflows/contract/policy.ts'
import { trainingRunStart } from '../../../../workflows/contract/starts.ts'
import { canonicalDigest } from '../../../http/canonical.ts'
import type { Services } from '../../../services.ts'
import { assertEnabled } from './assert-enabled.ts'
import { assertQuota } from './assert-quota.ts'
import { chooseModel } from './choose-model.ts'
import { queuedMessage, jobWaitOf } from './job-wait.ts'
import { assertTrainable, chooseHardware, prefersGpu, resolveHyperparameters } from './plan-run.ts'
import { resolveBase } from './resolve-base.ts'

interface NewRun {
  accountId: string
  body: CreateTrainingRun
  /** The transaction that commits the run, its events and its workflow start together. */
  trx: Transaction<Database>
}

/**
 * Creates a run from a validated body: rejects a run that can never succeed, checks the quota and enqueues the work.
 */
export async function startRun(
  { accountId, body, trx }: NewRun,
  { catalog, config, objects, now }: Pick<Services, 'catalog' | 'config' | 'objects' | 'now'>,
): Promise<TrainingRunAccepted> {
  const { model, base } = await chooseModel(trx, catalog, { accountId, body })
  await assertEnabled(trx, accountId, model.config.model_id)
  const dataset = await datasetRepository.shareLockUsableDataset(trx, accountId, body.dataset_id)
  if (!dataset) throw invalid(['body', 'dataset_id'], 'there is no such dataset')
  assertTrainable(model, dataset)
  const { given, notes } = withoutNamedBase(body.hyperparameters ?? {}, base)
  const resolved = resolveHyperparameters(model, given, { ...dataset, columns: completeColumns(dataset) })
  await assertOwnParent(trx, accountId, body)
  const baseModel = resolved.values['base_model']
  const start = await resolveBase(trx, { accountId, catalog, model, base, baseModel }, { config, objects })
  const values = {
    ...resolved.values,
    ...(baseModel !== undefined && start.named && { base_model: start.named.name }),
  }

  const hardware_preference = body.hardware_preference ?? 'auto'
  const operating_mode = body.operating_mode ?? 'balanced'
  const gpuPreferred = prefersGpu(model, hardware_preference)
  // A preference alone does not make a run wait for a GPU if no node offers one now.
  const onGpu = { account_id: accountId, task_queue: QUEUES.train('gpu') }
  const gpuOnline = gpuPreferred && (await jobWaitOf(trx, onGpu, now())).reason === null
  const hardware = chooseHardware(model, gpuPreferred ? 'gpu_preferred' : hardware_preference, {
    values,
    gpuOnline,
  })
  await assertQuota(trx, accountId)
  const task_queue = QUEUES.train(hardware)
  const wait = await jobWaitOf(trx, { account_id: accountId, task_queue }, now())
  const run = await jobRepository.insertJob(trx, {
    id: newId(),
    account_id: accountId,
    job_type: 'training',
    job_name: body.job_name,
    status: 'pending',
    model_config_id: model.config.model_id,
    dataset_id: dataset.id,
    hyperparameters: JSON.stringify(values),
    operating_mode,
    hardware_preference,
    task_queue,
    ...wait.columns,
    base: start.ref && JSON.stringify(start.ref),
    base_revision: start.named?.revision ?? null,
    parent_job_id: body.parent_job_id ?? start.parentJobId,
    config_digest: canonicalDigest([
      accountId,
      model.config.model_id,
      values,
      dataset.id,
      start.ref,
    ]).toString('hex'),
    created_at: now(),
  })
  await jobRecordRepository.insertJobEvents(trx, [{ jobId: run.id, type: 'queued' }], now())
  const ignored = [...notes, ...resolved.warnings, ...start.notes]
  await jobRecordRepository.insertJobNotes(trx, run.id, [...ignored, ...wait.notes], now())
  await workflowStartRepository.enqueueWorkflow(
    trx,
    trainingRunStart({
      jobId: run.id,
      accountId,
      modelConfigId: run.model_config_id,
      jobName: run.job_name,
      priority: PRIORITY[operating_mode],
      waiting: wait.reason,
    }),
  )

  return {
    job_id: run.id,
    status: run.status,
    message: queuedMessage(wait, 'Training run queued', ignored),
    estimated_cost_credits: null,
    queue_position: await jobRepository.countAhead(trx, { ...run, priority: PRIORITY[operating_mode] }),
  }
}

/** Drops a hyperparameter that names a base model, which has no effect when the request has a base. */
function withoutNamedBase(
  hyperparameters: Record<string, unknown>,
  base: CreateTrainingRun['base'],
): { given: Record<string, unknown>; notes: string[] } {
  const { base_model, ...given } = hyperparameters
  if (!base || base.type === 'hf' || base_model === undefined || base_model === null)
    return { given: hyperparameters, notes: [] }
  return { given, notes: ['Hyperparameter base_model is ignored: the run starts from its base.'] }
}

async function assertOwnParent(
  trx: Transaction<Database>,
  accountId: string,
  { parent_job_id }: CreateTrainingRun,
): Promise<void> {
  if (!parent_job_id || (await jobRepository.findOwnJob(trx, accountId, parent_job_id))) return
  throw invalid(['body', 'parent_job_id'], 'there is no such job')
}
