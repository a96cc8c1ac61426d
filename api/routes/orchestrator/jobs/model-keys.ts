import type { JobBase } from '../../../../schemas/lease.ts'
import type { MergeIngredient } from '../../../../schemas/training-merge.ts'

/** Keys of the models whose files a node asks for by their key, to work on a job or a comparison. */
export const modelKeysOf = (ingredients: readonly Pick<MergeIngredient, 'from'>[]): string[] =>
  ingredients.flatMap(({ from }) => keysOfBase(from))

/** The same of the model that a run starts from. */
export const keysOfBase = (base: JobBase | null): string[] =>
  base?.type === 'version' ? [base.model_key] : []
