import type { JobBase } from '../../../../schemas/nodes/lease.ts'
import type { MergeIngredient } from '../../../../schemas/training-merge.ts'

/** Returns the keys of models whose files a node requests by key for a job or a comparison. */
export const modelKeysOf = (ingredients: readonly Pick<MergeIngredient, 'from'>[]): string[] =>
  ingredients.flatMap(({ from }) => keysOfBase(from))

/** Returns the key of the model that a run starts from, as a list. */
export const keysOfBase = (base: JobBase | null): string[] =>
  base?.type === 'version' ? [base.model_key] : []
