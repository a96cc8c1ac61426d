import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import * as nodeModelRepository from '../../../../db/repositories/nodes/models.ts'
import type { JobFacts } from '../../../../db/repositories/training/jobs.ts'
import * as mergeRepository from '../../../../db/repositories/training/merges.ts'
import type { MergeSourceView } from '../../../../db/repositories/training/merges.ts'
import { adapterFiles, trainingFiles } from '../../../../domain/hub/weights.ts'
import { baseModelOf } from '../../../../domain/models/base-model.ts'
import { adapterBytes } from '../../../../domain/models/memory.ts'
import { DEFAULT_DENSITY, DEFAULT_SEED, mergeMemoryMb } from '../../../../domain/training/merge.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { MergeClaim, MergeIngredient, MergeMethod } from '../../../../schemas/training-merge.ts'
import type { Services } from '../../../services.ts'
import type { HubFileReader } from '../nodes/hub-file-url.ts'
import { unavailable, hubRepository, storedFiles } from './base-of.ts'

/** Returns everything that a node needs for one attempt at a merge. */
export async function specifyMerge(
  services: Services,
  job: JobFacts,
  reader: HubFileReader,
): Promise<Pick<MergeClaim, 'merge'>> {
  const {
    method,
    density = DEFAULT_DENSITY,
    seed = DEFAULT_SEED,
  } = job.hyperparameters as {
    method: MergeMethod
    density?: number
    seed?: number
  }
  const all = await mergeRepository.listMergeSources(services.db, job.id)
  // The base of slerp only documents the models' origin; slerp does not use it in the computation.
  const sources = method === 'slerp' ? all.filter(({ role }) => role !== 'base') : all
  const counts = { base: 0, adapter: 0, source: 0 }
  const ingredients: MergeIngredient[] = []
  let foldedBytes = 0
  for (const source of sources) {
    const number = ++counts[source.role]
    const from = await placeOf(services, { job, reader }, source)
    const names = source.role === 'base' ? { names: await namesOf(services, source) } : {}
    ingredients.push({
      role: source.role,
      label: labelOf(source, number),
      weight: source.weight,
      from,
      ...names,
    })
    if (source.role === 'adapter') foldedBytes += await bytesOfAdapter(services, from)
  }
  return {
    merge: {
      job_name: job.job_name,
      method,
      density,
      seed,
      ingredients,
      memory_mb: mergeMemoryMb(foldedBytes),
    },
  }
}

function labelOf({ role, name }: MergeSourceView, number: number): string {
  const what = role === 'base' ? 'the base' : `${role} ${number}`
  return name ? `${what} (${name})` : what
}

/** Returns the names that an adapter trained on this base may use for it. */
async function namesOf({ db }: Services, { ref, version_id: versionId }: MergeSourceView): Promise<string[]> {
  const given = ref as ArtifactRef
  if (given.type === 'hf') return [given.repo_id]
  if (given.type === 'storage') return [given.uri]
  if (!versionId) return []
  const imported = await hubModelRepository.findHubImport(db, versionId)
  return [...new Set([baseModelOf(versionId, imported).name, baseModelOf(versionId, undefined).name])]
}

async function placeOf(
  services: Services,
  { job, reader }: { job: JobFacts; reader: HubFileReader },
  source: MergeSourceView,
): Promise<MergeIngredient['from']> {
  if (source.model_key) return { type: 'version', model_key: source.model_key }
  const ref = source.ref as ArtifactRef
  if (ref.type === 'storage') return storedFiles(services, job, ref.uri)
  if (ref.type !== 'hf') return unavailable('A source of this merge no longer exists.')
  const repo = { repoId: ref.repo_id, revision: ref.revision }
  return hubRepository(services, job.account_id, repo, {
    what: 'The model',
    reader,
    pin: (revision) => mergeRepository.pinMergeSource(services.db, source, revision),
    choose: source.role === 'adapter' ? adapterFiles : trainingFiles,
  })
}

async function bytesOfAdapter({ db }: Services, from: MergeIngredient['from']): Promise<number> {
  if (from.type === 'files') return adapterBytes(from.files)
  const found =
    from.type === 'version' ? await nodeModelRepository.findModelFiles(db, from.model_key) : undefined
  return found ? adapterBytes(found.files) : 0
}
