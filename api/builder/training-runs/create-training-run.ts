import type { Transaction } from 'kysely'
import { holdUsableDataset } from '../../../db/repositories/datasets.ts'
import { insertJobEvents, insertJobNotes } from '../../../db/repositories/job-records.ts'
import {
  countAhead,
  findTrainingRun,
  insertTrainingRun,
  isHardwareOnline,
} from '../../../db/repositories/training-runs.ts'
import { insertWorkflowStart } from '../../../db/repositories/workflow-starts.ts'
import type { Database } from '../../../db/tables.ts'
import { invalid } from '../../../domain/errors.ts'
import { completeColumns } from '../../../domain/dataset-columns.ts'
import { newId } from '../../../domain/ids.ts'
import { PRIORITY } from '../../../domain/training-run.ts'
import { CreateTrainingRun, TrainingRunAccepted } from '../../../schemas/training-run.ts'
import { QUEUES } from '../../../workflows/policy.ts'
import { trainingRunStart } from '../../../workflows/starts.ts'
import { canonicalDigest } from '../../http/canonical.ts'
import { route } from '../../http/route.ts'
import { assertEnabled } from './assert-enabled.ts'
import { assertQuota } from './assert-quota.ts'
import {
  assertTrainable,
  chooseHardware,
  chooseModel,
  likesGpuWith,
  resolveHyperparameters,
} from './plan-run.ts'
import { resolveBase } from './resolve-base.ts'

export const createTrainingRun = route({
  operationId: 'createTrainingRun',
  summary: 'Start a training run',
  method: 'POST',
  path: '/training/runs',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  body: CreateTrainingRun,
  success: { status: 202, schema: TrainingRunAccepted },
  errors: ['conflict', 'training_quota_exceeded'],

  async handler({ caller: { accountId }, body, trx }, { catalog, config, objects, now }) {
    const model = chooseModel(catalog, body)
    await assertEnabled(trx, accountId, model.config.model_id)
    const dataset = await holdUsableDataset(trx, accountId, body.dataset_id)
    if (!dataset) throw invalid(['body', 'dataset_id'], 'there is no such dataset')
    assertTrainable(model, dataset)
    const { values, warnings } = resolveHyperparameters(
      model,
      body.hyperparameters ?? {},
      completeColumns(dataset),
    )
    await assertOwnParent(trx, accountId, body)
    const { parentJobId } = await resolveBase(trx, { accountId, model, body }, { config, objects })

    const hardware_preference = body.hardware_preference ?? 'auto'
    const operating_mode = body.operating_mode ?? 'balanced'
    const likesGpu = likesGpuWith(model, hardware_preference)
    const gpuOnline = likesGpu && (await isHardwareOnline(trx, 'gpu', accountId))
    const hardware = chooseHardware(model, likesGpu ? 'gpu_preferred' : hardware_preference, {
      values,
      gpuOnline,
    })
    const base = body.base ?? null
    await assertQuota(trx, accountId)
    const run = await insertTrainingRun(trx, {
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
      task_queue: QUEUES.train(hardware),
      base: base && JSON.stringify(base),
      parent_job_id: body.parent_job_id ?? parentJobId,
      config_digest: canonicalDigest([accountId, model.config.model_id, values, dataset.id, base]).toString(
        'hex',
      ),
      estimated_cost_credits: model.estimateCredits(dataset.num_samples, values),
      created_at: now(),
    })
    await insertJobEvents(trx, [{ jobId: run.id, type: 'queued' }], now())
    await insertJobNotes(trx, run.id, warnings, now())
    await insertWorkflowStart(
      trx,
      trainingRunStart({
        jobId: run.id,
        accountId,
        modelConfigId: run.model_config_id,
        jobName: run.job_name,
        priority: PRIORITY[operating_mode],
      }),
    )

    return {
      job_id: run.id,
      status: run.status,
      message: 'Training run queued',
      estimated_cost_credits: run.estimated_cost_credits,
      queue_position: await countAhead(trx, { ...run, priority: PRIORITY[operating_mode] }),
    }
  },
})

async function assertOwnParent(
  trx: Transaction<Database>,
  accountId: string,
  { parent_job_id }: CreateTrainingRun,
): Promise<void> {
  if (!parent_job_id || (await findTrainingRun(trx, accountId, parent_job_id))) return
  throw invalid(['body', 'parent_job_id'], 'there is no such job')
}
