import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { MergeIngredient } from '../../schemas/training-merge.ts'
import { type BaseOptions, type BaseTools, fetchBase } from '../training/base-model.ts'
import type { WeightedIngredient } from './merge-models.ts'

/** Where the files of a model lie in its version, as trainers write them too. */
export const MODEL_FOLDER = 'model'

/** One of the things a model is made of, on this disk. */
export interface Fetched {
  role: MergeIngredient['role']
  ingredient: WeightedIngredient
}

/** Brings everything that a model is made of onto this disk, below a folder of the caller's. */
export async function fetchIngredients(
  tools: BaseTools,
  ingredients: readonly MergeIngredient[],
  { dir, signal, tell }: BaseOptions,
): Promise<Fetched[]> {
  const found: Fetched[] = []
  for (const [i, { role, label, weight, from }] of ingredients.entries()) {
    const folder = await fetchBase(tools, from, {
      dir: join(dir, `source-${i}`),
      signal,
      tell: (line) => tell(line.replace('the base model', label)),
    })
    const inner = role === 'adapter' ? adapterFolder(folder) : modelFolder(folder)
    found.push({ role, ingredient: { dir: inner, label, weight: weight ?? 1 } })
  }
  return found
}

/** A version holds its model at the top or in a folder. */
const modelFolder = (folder: string): string => within(folder, MODEL_FOLDER, 'config.json')

const adapterFolder = (folder: string): string => within(folder, 'adapter', 'adapter_config.json')

function within(folder: string, name: string, config: string): string {
  const inner = join(folder, name)
  return existsSync(join(inner, config)) ? inner : folder
}
