import { join } from 'node:path'
import { flagsOf, buildFolders } from './made-models.ts'
import { llmPython } from './tiny-llm.ts'

const MAKER = join(import.meta.dirname, 'tiny_reader.py')

/** Options that make a tiny OCR model differ from the default one, a TrOCR. */
export interface TinyReader {
  kind?: 'trocr' | 'donut'
  seed?: number
  /** Its numbers overflow on a black image. */
  overflows?: boolean
}

/** Returns the folder of a tiny OCR model with random weights, created once per machine. */
export async function tinyReader(options: TinyReader = {}): Promise<string> {
  const inputs = flagsOf(options)
  const making = { program: MAKER, inputs, args: (folder: string) => [folder, ...inputs] }
  const [folder = ''] = await buildFolders(await llmPython(), [making])
  return folder
}
