import { join } from 'node:path'
import { requireInstalled } from '../../skip.ts'
import { flagsOf, buildFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_generative.py')

export interface TinyGenerative {
  kind: 'stable-diffusion' | 'ltx' | 'svd' | 'shap-e' | 'shap-e-image' | 'vits' | 'musicgen'
  seed?: number
  /** Makes all pixels of its images equal, or NaN. */
  fault?: 'flat' | 'nan'
}

/** For `before`: skips the tests of a suite, with the reason, if the environment can't be installed. */
export async function requireGenerative(this: Mocha.Context): Promise<void> {
  this.timeout(1_800_000)
  await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, llmPython)
}

/** Returns the folders of tiny generative models with random weights, created once per machine. */
export async function tinyGeneratives(all: readonly TinyGenerative[]): Promise<string[]> {
  const makings = all.map((options) => {
    const inputs = flagsOf(options)
    return { program: MAKER, inputs, args: (draft: string) => [draft, ...inputs] }
  })
  return buildFolders(await llmPython(), makings)
}
