import type { JobView } from '../../../../db/repositories/training/jobs.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import {
  type CreateTrainingRun,
  RepeatTrainingRun,
  TrainingRunAccepted,
  TrainingRunParams,
} from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'
import { startRun } from './start-run.ts'

export const repeatTrainingRun = route({
  operationId: 'repeatTrainingRun',
  summary: 'Rerun a training run, with optional changes to its configuration',
  method: 'POST',
  path: '/training/runs/{run_id}:again',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  params: TrainingRunParams,
  body: RepeatTrainingRun,
  success: { status: 202, schema: TrainingRunAccepted },
  errors: ['not_found', 'conflict', 'training_quota_exceeded'],

  async handler({ caller: { accountId }, params, body, trx }, services) {
    const run = await requireRun(trx, accountId, params.run_id)
    if (run.job_type === 'merge') {
      throw new ApiError('conflict', 'this is a merge; only training runs can be rerun')
    }
    return startRun({ accountId, body: bodyOf(run, body), trx }, services)
  },
})

/** Returns the request body that creates a run like the given one, with the changes. */
function bodyOf(run: JobView, changes: RepeatTrainingRun): CreateTrainingRun {
  const base = run.base as ArtifactRef | null
  const { base_model, ...others } = run.hyperparameters
  // If the base isn't a hub repository, `base_model` is just the base's name, which the request did not contain.
  const isGiven = base_model !== undefined && (base === null || base.type === 'hf')
  // A null means no change: some clients send it for omitted fields.
  const changed = Object.entries(changes.hyperparameters ?? {}).filter(([, value]) => value !== null)
  const dataset_id = changes.dataset_id ?? run.dataset_id
  if (dataset_id === null)
    throw invalid(['body', 'dataset_id'], 'is required: the original run has no dataset')
  return {
    job_name: changes.job_name ?? run.job_name,
    model_config_id: run.model_config_id,
    dataset_id,
    hyperparameters: { ...others, ...(isGiven && { base_model }), ...Object.fromEntries(changed) },
    operating_mode: run.operating_mode,
    hardware_preference: run.hardware_preference,
    base,
    parent_job_id: run.id,
  }
}
