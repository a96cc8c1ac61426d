import type { MergeMethod } from '../schemas/training-merge.ts'

/** How many models each method takes: adapters, or whole models. */
export const MERGE_ARITY: Readonly<
  Record<MergeMethod, { field: 'adapters' | 'sources'; least: number; most: number }>
> = {
  adapter_merge: { field: 'adapters', least: 1, most: 16 },
  slerp: { field: 'sources', least: 2, most: 2 },
  ties: { field: 'sources', least: 2, most: 16 },
  dare: { field: 'sources', least: 2, most: 16 },
}

/** Share of a difference that is kept when the caller names none. */
export const DEFAULT_DENSITY = 0.5
export const DEFAULT_SEED = 0
/** What a merge holds, whatever the size of the models: each of its threads has a few chunks of them. */
const CHUNKS_MB = 160
const MB = 1024 * 1024

/** Memory of a merge, in MB. Of adapters the threads hold whole factors, together less than the files of them all. */
export const mergeMemoryMb = (adapterBytes: number): number => CHUNKS_MB + Math.ceil(adapterBytes / MB)

/** Something wrong with a field of the body. */
export interface FieldFault {
  path: (string | number)[]
  message: string
}

/** What is wrong with how many models and which weights are given; `undefined` when nothing is. */
export function faultOfMerge(
  method: MergeMethod,
  given: Record<'adapters' | 'sources', number> & {
    hasBase: boolean
    weights: readonly number[] | undefined
  },
): FieldFault | undefined {
  const { field, least, most } = MERGE_ARITY[method]
  const other = field === 'adapters' ? 'sources' : 'adapters'
  if (given[other] > 0) return { path: [other], message: `${method} takes ${field}, not ${other}` }
  const count = given[field]
  if (count < least || count > most) {
    const range = least === most ? `exactly ${least}` : `${least} to ${most}`
    return { path: [field], message: `${method} takes ${range} ${field}; ${count} are given` }
  }
  if ((method === 'ties' || method === 'dare') && !given.hasBase) {
    return { path: ['base'], message: `${method} needs the base that the sources were trained from` }
  }
  return given.weights && faultOfWeights(method, given.weights, count)
}

function faultOfWeights(
  method: MergeMethod,
  weights: readonly number[],
  count: number,
): FieldFault | undefined {
  if (weights.length !== count) {
    return { path: ['weights'], message: `there are ${weights.length} weights for ${count} models` }
  }
  if (method === 'adapter_merge') return undefined
  const negative = weights.findIndex((weight) => weight < 0)
  if (negative >= 0) return { path: ['weights', negative], message: `${method} takes no negative weights` }
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return sum > 0 ? undefined : { path: ['weights'], message: 'at least one weight must be above 0' }
}

/** One weight for each model: as given; else equal shares for `dare`, which adds up what it keeps, and 1 for the others. */
export const weightsFor = (
  method: MergeMethod,
  weights: readonly number[] | undefined,
  count: number,
): number[] => [...(weights ?? Array<number>(count).fill(method === 'dare' ? 1 / count : 1))]
