import { basename } from 'node:path'
import type { Kysely } from 'kysely'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import type { JobEvent } from '../../../../db/repositories/training/job-records.ts'
import type { JobFacts } from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import type { JobCheckpointRow } from '../../../../db/tables/training.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { THREAD_SHARE } from '../../../../domain/training/training-run.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { JobClaim } from '../../../../schemas/nodes/lease.ts'
import type { Services } from '../../../services.ts'
import type { RunWithMemory } from './run-memory.ts'

const URL_TTL_S = 3_600

/** Finds the checkpoint that an attempt resumes from. */
export const resumePoint = jobFileRepository.findResumePoint

type ProgressUnit = JobClaim['specification']['progress_unit']

/** Returns the unit of a run's checkpoint positions. */
export const progressUnit = (catalog: Catalog, { model_config_id }: JobFacts): ProgressUnit =>
  catalog.model(model_config_id)?.config.trainer.progress_unit ?? 'epoch'

/** Builds the event for the start of an attempt, with the reason and the checkpoint. */
export async function startEvent(
  db: Kysely<Database>,
  attempt: {
    run: JobFacts
    lease: LeaseRow
    earlier: LeaseRow | undefined
    checkpoint: JobCheckpointRow | undefined
    unit: ProgressUnit
  },
): Promise<JobEvent> {
  const { run, lease, earlier, checkpoint, unit } = attempt
  const names = await nodeRepository.nodeNames(db, [lease.node_id, earlier?.node_id ?? lease.node_id])
  const node = names.get(lease.node_id)
  if (!earlier && !checkpoint) return { jobId: run.id, type: 'started', detail: `on node ${node}` }

  const from = !checkpoint
    ? 'from the beginning, because there was no checkpoint yet'
    : checkpoint.job_id === run.id
      ? `from the checkpoint after ${unit} ${checkpoint.epoch}`
      : `from the checkpoint after ${unit} ${checkpoint.epoch} of the identical run ${checkpoint.job_id}`
  // The lease was read before it was closed, so a lease that was still active has just expired.
  const isLost = earlier?.state === 'expired' || earlier?.state === 'active'
  const why = isLost ? `, after node ${names.get(earlier.node_id)} was lost` : ''
  return {
    jobId: run.id,
    type: earlier ? 'resumed' : 'started',
    ...(earlier && { occurrence: lease.attempt }),
    detail: `on node ${node} ${from}${why}`,
  }
}

/** Returns everything that a node needs for one attempt, with URLs that are valid from now on. */
export async function specify(
  { db, objects, catalog }: Services,
  run: JobFacts,
  { base, memoryMb, checkpoint }: RunWithMemory & { checkpoint: JobCheckpointRow | undefined },
): Promise<Pick<JobClaim, 'specification' | 'checkpoint'>> {
  const model = catalog.model(run.model_config_id)
  if (!model) throw new ApiError('conflict', `the model config ${run.model_config_id} no longer exists`)
  const dataset = run.dataset_id ? await datasetRepository.findDatasetFile(db, run.dataset_id) : undefined
  if (!dataset?.object_key) throw new ApiError('conflict', 'the dataset of this job no longer exists')

  const sign = async (key: string) => (await objects.signGet(key, { expiresInS: URL_TTL_S })).url
  const { trainer } = model.config
  const size = dataset.total_size_bytes ?? 0
  return {
    specification: {
      job_name: run.job_name,
      model_config_id: run.model_config_id,
      trainer: trainer.module,
      environment: trainer.python_env,
      hyperparameters: run.hyperparameters,
      dataset: {
        url: await sign(dataset.object_key),
        format: dataset.storage_format,
        size_bytes: size,
        filename: basename(dataset.object_key),
      },
      base,
      ...(run.base_revision !== null && { base_revision: run.base_revision }),
      operating_mode: run.operating_mode,
      thread_share: THREAD_SHARE[run.operating_mode],
      config_digest: run.config_digest,
      progress_unit: progressUnit(catalog, run),
      memory_mb: memoryMb,
    },
    checkpoint: checkpoint
      ? {
          job_id: checkpoint.job_id,
          url: await sign(checkpoint.object_key),
          filename: basename(checkpoint.object_key),
          epoch: checkpoint.epoch,
          sha256: checkpoint.sha256,
          size_bytes: checkpoint.size_bytes,
        }
      : null,
  }
}
