import type { JobView, ListedJob } from '../../../../db/repositories/training/jobs.ts'
import type { JobRow } from '../../../../db/tables/training.ts'
import { isTerminal } from '../../../../domain/training/training-run.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { EpochLoss, TrainingMetrics, TrainingRun } from '../../../../schemas/training-run.ts'

/** Returns a run's metrics: the final values if there are any, and the losses so far. */
export function presentMetrics(metrics: JobRow['metrics'], live: readonly EpochLoss[]): TrainingMetrics {
  const final = (metrics ?? {}) as Partial<TrainingMetrics>
  return { ...final, epochs: final.epochs ?? [...live] }
}

/** Returns a run as the API shows it in a list, without the losses per epoch. */
export function presentListedRun(run: ListedJob): TrainingRun {
  const { epochs: _, ...metrics } = run.metrics ?? {}
  return presentRun(run, metrics)
}

/** Returns a run as the API shows it, with these metrics. */
export function presentRun(run: Omit<ListedJob, 'metrics'>, metrics: Record<string, unknown>): TrainingRun {
  const time = (at: Date | null) => at?.toISOString() ?? null
  return {
    job_id: run.id,
    run_id: run.id,
    job_name: run.job_name,
    job_type: run.job_type,
    status: run.status,
    model_config_id: run.model_config_id,
    dataset_id: run.dataset_id,
    operating_mode: run.operating_mode,
    hardware_preference: run.hardware_preference,
    hyperparameters: run.hyperparameters,
    metrics,
    // While the run continues, this column contains the error of the last attempt; the next attempt may succeed.
    error_message: run.status === 'failed' ? run.error_message : null,
    parent_job_id: run.parent_job_id,
    base: baseOfRun(run),
    version_id: run.version_id,
    attempt: run.attempt,
    paused: isPaused(run),
    waiting: waitingOf(run),
    progress: run.status === 'running' && !isPaused(run) ? run.progress : null,
    // Jobs are not charged.
    estimated_cost_credits: null,
    created_at: run.created_at.toISOString(),
    started_at: time(run.started_at),
    completed_at: time(run.completed_at),
  }
}

/** Returns a run's base; a repository includes its pinned commit once a node has requested it. */
export function baseOfRun({
  base,
  job_type,
  hyperparameters,
  base_revision,
}: Pick<JobView, 'base' | 'job_type' | 'hyperparameters' | 'base_revision'>): ArtifactRef | null {
  const given = base as ArtifactRef | null
  const repo_id = hyperparameters['base_model']
  if (job_type !== 'training' || typeof repo_id !== 'string') return given
  if (given && given.type !== 'hf') return given
  return { type: 'hf', repo_id, ...(base_revision !== null && { revision: base_revision }) }
}

/** Returns whether a run is paused. A run that was cancelled while it was paused is no longer paused. */
export const isPaused = ({ status, paused_at }: Pick<JobView, 'status' | 'paused_at'>): boolean =>
  paused_at !== null && !isTerminal(status)

function waitingOf({
  status,
  waiting_reason,
  waiting_since,
}: Omit<ListedJob, 'metrics'>): TrainingRun['waiting'] {
  if (isTerminal(status) || waiting_reason === null || waiting_since === null) return null
  return { reason: waiting_reason, since: waiting_since.toISOString() }
}
