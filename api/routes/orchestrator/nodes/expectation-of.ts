import { listVersionPaths } from '../../../../db/repositories/training/artifact-refs.ts'
import { findJob } from '../../../../db/repositories/training/jobs.ts'
import type { ModelVersionRow } from '../../../../db/tables/models.ts'
import type { MergeIngredient, MergeMethod } from '../../../../schemas/training-merge.ts'
import type { Services } from '../../../services.ts'
import { baseOf } from '../jobs/base-of.ts'
import { specifyMerge } from '../jobs/merge-specification.ts'
import type { HubFileReader } from './hub-file-url.ts'

/**
 * What the logits of a version are to be: for a merge of adapters those of the base under them, for a run that left an
 * adapter those of its base under it. Empty where nothing says what to expect, or where the base cannot be had any more.
 */
export async function expectationOf(
  services: Services,
  { id, job_id, model_key }: ModelVersionRow,
  reader: HubFileReader,
): Promise<MergeIngredient[]> {
  const job = job_id === null ? undefined : await findJob(services.db, job_id)
  if (!job) return []
  if (job.job_type === 'merge') {
    const { method } = job.hyperparameters as { method: MergeMethod }
    if (method !== 'adapter_merge') return []
    const { ingredients } = (await specifyMerge(services, job, reader)).merge
    // What it was made of has been deleted since, and no later try would find it.
    return ingredients.some(({ from }) => from.type === 'unavailable') ? [] : ingredients
  }
  const paths = await listVersionPaths(services.db, id)
  if (!paths.includes('adapter/adapter_config.json')) return []
  const base = await baseOf(services, job, reader)
  if (!base || base.type === 'unavailable') return []
  return [
    { role: 'base', label: 'the base', weight: null, from: base },
    { role: 'adapter', label: 'its adapter', weight: null, from: { type: 'version', model_key } },
  ]
}
