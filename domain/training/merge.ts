import type { MergeMethod } from '../../schemas/training-merge.ts'

/** The number of models that each method merges: adapters, or whole models. */
export const MERGE_ARITY: Readonly<
  Record<MergeMethod, { field: 'adapters' | 'sources'; least: number; most: number }>
> = {
  adapter_merge: { field: 'adapters', least: 1, most: 16 },
  slerp: { field: 'sources', least: 2, most: 2 },
  ties: { field: 'sources', least: 2, most: 16 },
  dare: { field: 'sources', least: 2, most: 16 },
}

/** The share of a difference that is retained by default. */
export const DEFAULT_DENSITY = 0.5
export const DEFAULT_SEED = 0
/** The memory for chunks is independent of model size: each thread holds a few chunks. */
const CHUNKS_MB = 160
const MB = 1024 * 1024

/**
 * Returns the memory that a merge needs, in MB. For adapters, the threads hold whole factors, which together are
 * smaller than all adapter files.
 */
export const mergeMemoryMb = (adapterBytes: number): number => CHUNKS_MB + Math.ceil(adapterBytes / MB)

/** A validation error for a field in the body. */
export interface FieldFault {
  path: (string | number)[]
  message: string
}

/** Returns an error in the number of models or weights; undefined when there is none. */
export function faultOfMerge(
  method: MergeMethod,
  given: Record<'adapters' | 'sources', number> & {
    hasBase: boolean
    weights: readonly number[] | undefined
  },
): FieldFault | undefined {
  const { field, least, most } = MERGE_ARITY[method]
  const other = field === 'adapters' ? 'sources' : 'adapters'
  if (given[other] > 0) return { path: [other], message: `${method} accepts ${field}, not ${other}` }
  const count = given[field]
  if (count < least || count > most) {
    const range = least === most ? `exactly ${least}` : `${least} to ${most}`
    return { path: [field], message: `${method} needs ${range} ${field}, but got ${count}` }
  }
  if ((method === 'ties' || method === 'dare') && !given.hasBase) {
    return { path: ['base'], message: `${method} needs the base model of the sources` }
  }
  return given.weights && faultOfWeights(method, given.weights, count)
}

function faultOfWeights(
  method: MergeMethod,
  weights: readonly number[],
  count: number,
): FieldFault | undefined {
  if (weights.length !== count) {
    return {
      path: ['weights'],
      message: `must have one weight for each of the ${count} models, but has ${weights.length}`,
    }
  }
  if (method === 'adapter_merge') return undefined
  const negative = weights.findIndex((weight) => weight < 0)
  if (negative >= 0)
    return { path: ['weights', negative], message: `${method} does not accept negative weights` }
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return sum > 0 ? undefined : { path: ['weights'], message: 'at least one weight must be above 0' }
}

/**
 * Returns one weight for each model: the given ones, otherwise equal shares for `dare`, which adds up what it retains,
 * and 1 for other methods.
 */
export const weightsFor = (
  method: MergeMethod,
  weights: readonly number[] | undefined,
  count: number,
): number[] => [...(weights ?? Array<number>(count).fill(method === 'dare' ? 1 / count : 1))]
