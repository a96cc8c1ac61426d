import type { Hearth } from '../client/index.ts'
import { isUuid } from '../domain/uuid.ts'
import type { Dataset } from '../schemas/dataset.ts'
import type { Model } from '../schemas/model.ts'
import { usageError } from './cli-error.ts'

/** Resolves a dataset id or name to the id. */
export async function datasetId(h: Hearth, given: string): Promise<string> {
  if (isUuid(given)) return given
  const found: Dataset[] = []
  for await (const one of h.datasets.list({ limit: 100 })) if (one.dataset_name === given) found.push(one)
  return only(found, { given, kind: 'dataset', id: ({ dataset_id }) => dataset_id })
}

/** Resolves a model id or name to the id. */
export async function modelId(h: Hearth, given: string): Promise<string> {
  if (isUuid(given)) return given
  const found: Model[] = []
  for await (const one of h.models.list({ limit: 100 })) if (one.name === given) found.push(one)
  return only(found, { given, kind: 'model', id: ({ model_id }) => model_id })
}

interface NameLookup<T> {
  given: string
  kind: string
  id: (one: T) => string
}

function only<T>(found: readonly T[], { given, kind, id }: NameLookup<T>): string {
  const [one] = found
  if (one === undefined)
    throw usageError(`no ${kind} is named ${given}; \`npx hearth ${kind}s ls\` lists them`)
  if (found.length === 1) return id(one)
  throw usageError(
    `${found.length} ${kind}s are named ${given}; pass the id of one: ${found.map(id).join(', ')}`,
  )
}
