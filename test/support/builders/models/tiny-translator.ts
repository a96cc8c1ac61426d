import { join } from 'node:path'
import { flagsOf, buildFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_translator.py')

/** Options that make a tiny translator differ from the default one, an NLLB with three languages. */
export interface TinyTranslator {
  kind?: 'nllb' | 'marian'
  seed?: number
  positions?: number
}

/** Returns the folder of a tiny translation model with random weights, created once per machine. */
export async function tinyTranslator(options: TinyTranslator = {}): Promise<string> {
  const inputs = flagsOf(options)
  const making = { program: MAKER, inputs, args: (folder: string) => [folder, ...inputs] }
  const [folder = ''] = await buildFolders(await llmPython(), [making])
  return folder
}
