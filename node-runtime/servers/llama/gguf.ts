import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Binding, Llama, LlamaModel } from './binding.ts'
import { checkGgufHeader, judgeLoadFailure, UnusableWeightsError } from './unusable-weights.ts'

/** The number of llama.cpp log lines that are kept to explain a failed load. */
const MAX_WRITTEN = 100

/** Loads the GGUF file in a folder; throws an `UnusableWeightsError` if its weights are at fault. */
export async function openGguf(
  binding: Binding,
  { folder, threads }: { folder: string; threads: number },
): Promise<{ llama: Llama; model: LlamaModel }> {
  const path = findGguf(folder)
  const written: string[] = []
  const logger = (_level: string, text: string): void => {
    process.stderr.write(`${text.trimEnd()}\n`)
    if (written.length < MAX_WRITTEN) written.push(text)
  }
  const settings = {
    build: 'never',
    maxThreads: threads,
    progressLogs: false,
    logLevel: 'error',
    logger,
  } as const
  await checkGgufHeader(path)
  const llama = await binding.getLlama({ gpu: 'auto', ...settings })
  const model = await llama.loadModel({ modelPath: path }).catch(async (err: unknown) => {
    throw await judgeLoadFailure(err, written)
  })
  return { llama, model }
}

/** Finds the one GGUF file under a folder; for a split model, its first part. */
function findGguf(folder: string): string {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => name.endsWith('.gguf')).toSorted()
  const [first] = files
  if (first === undefined) throw new UnusableWeightsError('the model has no .gguf file')
  return join(folder, first)
}
