import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { MergeIngredient } from '../../schemas/training-merge.ts'
import { type BaseOptions, type BaseTools, fetchBase } from '../training/base-model.ts'
import type { WeightedIngredient } from './merge-models.ts'

/** The folder that holds the model in a version's files; trainers write their models there too. */
export const MODEL_FOLDER = 'model'

/** An ingredient of a model, on the local disk. */
export interface LocalIngredient {
  role: MergeIngredient['role']
  ingredient: WeightedIngredient
}

/** Downloads every ingredient of a model into the caller's folder. */
export async function fetchIngredients(
  tools: BaseTools,
  ingredients: readonly MergeIngredient[],
  { dir, signal, tell }: BaseOptions,
): Promise<LocalIngredient[]> {
  const found: LocalIngredient[] = []
  for (const [i, { role, label, weight, from, names }] of ingredients.entries()) {
    const folder = await fetchBase(tools, from, {
      dir: join(dir, `source-${i}`),
      signal,
      tell: (line) => tell(line.replace('the base model', label)),
    })
    const inner = role === 'adapter' ? adapterFolder(folder) : modelFolder(folder)
    found.push({ role, ingredient: { dir: inner, label, weight: weight ?? 1, ...(names && { names }) } })
  }
  return found
}

/** Returns the folder of a version's model: `MODEL_FOLDER`, or the version's folder itself. */
const modelFolder = (folder: string): string => within(folder, MODEL_FOLDER, 'config.json')

const adapterFolder = (folder: string): string => within(folder, 'adapter', 'adapter_config.json')

function within(folder: string, name: string, config: string): string {
  const inner = join(folder, name)
  return existsSync(join(inner, config)) ? inner : folder
}
