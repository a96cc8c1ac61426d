import { ApplicationFailure } from '@temporalio/common'
import type { Transaction } from 'kysely'
import * as candidateTestRepository from '../../../db/repositories/models/candidate-tests.ts'
import * as hubVersionRepository from '../../../db/repositories/models/hub-versions.ts'
import { type Listing, listingColumns } from '../../../db/repositories/models/listing.ts'
import * as versionRepository from '../../../db/repositories/models/versions.ts'
import * as artifactRefRepository from '../../../db/repositories/training/artifact-refs.ts'
import * as jobFileRepository from '../../../db/repositories/training/job-files.ts'
import * as jobRepository from '../../../db/repositories/training/jobs.ts'
import type { JobFacts } from '../../../db/repositories/training/jobs.ts'
import * as mergeRepository from '../../../db/repositories/training/merges.ts'
import type { Database } from '../../../db/tables.ts'
import type { ModelVersionRow, NewModelVersion } from '../../../db/tables/models.ts'
import { CHAT_LISTING } from '../../../domain/chat/listing.ts'
import { newId } from '../../../domain/ids.ts'
import { entersAs } from '../../../domain/models/lifecycle.ts'
import { estimateMb, weightsBytes } from '../../../domain/models/memory.ts'
import { importedListing } from '../../../domain/task-types/index.ts'
import { modelKeyOf } from '../../../domain/training/training-run.ts'
import type { Catalog } from '../../../platform/catalog.ts'
import type { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import { candidateTestStart } from '../../../workflows/contract/starts.ts'

/** The fields of a version that describe a job's result: how to run it, and its input and output. */
type JobVersionFields = Pick<
  NewModelVersion,
  'runtime_profile' | 'memory_mb' | 'base_model_version_id' | keyof Listing
>

/** Creates the version of a completed job, with the job's artifacts as its files. */
export async function createVersion(
  trx: Transaction<Database>,
  job: JobFacts,
  catalog: Catalog,
): Promise<void> {
  const artifacts = await jobFileRepository.listArtifacts(trx, job.id)
  const files = artifacts.map(({ filename: path, size_bytes }) => ({ path, size_bytes }))
  const nature = await (job.job_type === 'merge' ? mergedNature : trainedNature)(trx, job, { catalog, files })
  if (!nature || artifacts.length === 0) {
    throw ApplicationFailure.nonRetryable(`job ${job.id} has no result to create a version from`, 'no_result')
  }
  const id = newId()
  const version = await versionRepository.insertVersion(
    trx,
    {
      id,
      account_id: job.account_id,
      model_key: modelKeyOf(job.job_name, id),
      name: job.job_name,
      model_config_id: job.model_config_id,
      job_id: job.id,
      dataset_id: job.dataset_id,
      parent_job_id: job.parent_job_id,
      lifecycle_status: entersAs(job.job_type, job.base as ArtifactRef | null),
      ...nature,
    },
    artifacts.map(({ filename, object_key, size_bytes, sha256 }) => ({
      path: filename,
      object_key,
      size_bytes,
      sha256,
    })),
  )
  if (job.job_type === 'merge') await mergeRepository.insertVersionSources(trx, id, job.id)
  // The workflow starts once this transaction has committed, which is after the job has completed.
  if (version.lifecycle_status === 'candidate')
    await candidateTestRepository.enqueueCandidateTest(trx, id, candidateTestStart(version))
}

/** A job's result, and the catalog that defines how to run such results. */
interface Result {
  catalog: Catalog
  files: readonly { path: string; size_bytes: number }[]
}

/** The description that the trainer wrote. */
async function trainedNature(
  trx: Transaction<Database>,
  run: JobFacts,
  { catalog, files }: Result,
): Promise<JobVersionFields | undefined> {
  const model = catalog.model(run.model_config_id)
  const output = model && (await jobRepository.findOutput(trx, run.id))
  if (!model || !output) return undefined
  return {
    runtime_profile: model.config.runtime_profile,
    memory_mb: estimateMb(model.profile, weightsBytes(files)),
    base_model_version_id: await baseVersionId(trx, run),
    ...listingColumns({
      ...importedListing(model.config.task_type),
      ...(output as Partial<Pick<ModelVersionRow, keyof Listing>>),
    }),
  }
}

/**
 * Copies the description of the model that adapters were merged into, or of the first version among the sources.
 * Without any version, returns the description of models that this platform trains.
 */
async function mergedNature(
  trx: Transaction<Database>,
  job: JobFacts,
  { catalog, files }: Result,
): Promise<JobVersionFields | undefined> {
  const [model, [first]] = [
    await mergeRepository.findMergeModel(trx, job.id),
    await mergeRepository.listMergeSources(trx, job.id),
  ]
  const profile = model ? catalog.profile(model.runtime_profile) : catalog.tunerOf('chat')?.profile
  if (!model && !profile) return undefined
  return {
    runtime_profile: model?.runtime_profile ?? profile?.profile_id ?? '',
    memory_mb: profile ? estimateMb(profile, weightsBytes(files)) : (model?.memory_mb ?? 0),
    base_model_version_id: first?.version_id ?? null,
    ...listingColumns(model ?? CHAT_LISTING),
  }
}

/** Returns the version that a run started from, for its result's lineage. */
async function baseVersionId(
  trx: Transaction<Database>,
  { account_id, base, base_revision, hyperparameters }: JobFacts,
): Promise<string | null> {
  const ref = base as ArtifactRef | null
  if (ref?.type === 'storage') return null
  const repo_id = hyperparameters['base_model']
  const version =
    ref && ref.type !== 'hf'
      ? await artifactRefRepository.findUsableVersion(trx, account_id, ref)
      : typeof repo_id === 'string'
        ? await hubVersionRepository.findHubVersion(trx, account_id, {
            repo_id,
            revision: base_revision ?? undefined,
          })
        : undefined
  return version?.id ?? null
}
