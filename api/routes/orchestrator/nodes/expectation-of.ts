import type { VersionFacts } from '../../../../db/repositories/models/version-facts.ts'
import * as artifactRefRepository from '../../../../db/repositories/training/artifact-refs.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { isChatCapable } from '../../../../domain/chat/chat.ts'
import type { MergeIngredient, MergeMethod } from '../../../../schemas/training-merge.ts'
import type { Services } from '../../../services.ts'
import { baseOf } from '../jobs/base-of.ts'
import { specifyMerge } from '../jobs/merge-specification.ts'
import type { HubFileReader } from './hub-file-url.ts'

/**
 * Returns the merge ingredients that produce the expected logits. For a merge of adapters, these are the base and the
 * adapters; for a run that produced an adapter, its base and that adapter. Empty when nothing is known, when the base
 * is no longer available, or when the model has no next-token logits.
 */
export async function expectationOf(
  services: Services,
  { id, job_id, model_key }: VersionFacts,
  reader: HubFileReader,
): Promise<MergeIngredient[]> {
  const job = job_id === null ? undefined : await jobRepository.findJob(services.db, job_id)
  if (!job) return []
  if (job.job_type === 'merge') {
    const { method } = job.hyperparameters as { method: MergeMethod }
    if (method !== 'adapter_merge') return []
    const { ingredients } = (await specifyMerge(services, job, reader)).merge
    // Deleted ingredients stay unavailable on every retry.
    return ingredients.some(({ from }) => from.type === 'unavailable') ? [] : ingredients
  }
  if (!isChatCapable(services.catalog.model(job.model_config_id)?.config.task_type ?? '')) return []
  const paths = await artifactRefRepository.listVersionPaths(services.db, id)
  if (!paths.includes('adapter/adapter_config.json')) return []
  const base = await baseOf(services, job, reader)
  if (!base || base.type === 'unavailable') return []
  return [
    { role: 'base', label: 'the base', weight: null, from: base },
    { role: 'adapter', label: 'its adapter', weight: null, from: { type: 'version', model_key } },
  ]
}
