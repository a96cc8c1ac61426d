import { join } from 'node:path'
import { flagsOf, madeFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_translator.py')

/** The differences of a tiny translator from the usual one, an NLLB of three languages. */
export interface TinyTranslator {
  kind?: 'nllb' | 'marian'
  seed?: number
  positions?: number
}

/** Returns the folder of a tiny model of translation with random weights, made once per machine. */
export async function tinyTranslator(options: TinyTranslator = {}): Promise<string> {
  const inputs = flagsOf(options)
  const making = { program: MAKER, inputs, args: (folder: string) => [folder, ...inputs] }
  const [folder = ''] = await madeFolders(await llmPython(), [making])
  return folder
}
