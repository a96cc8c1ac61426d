import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Binding, Llama, LlamaModel } from './binding.ts'
import { checkGgufHeader, judgeLoadFailure, UnusableWeightsError } from './unusable-weights.ts'

/** The number of llama.cpp log lines that are kept to explain a failed load. */
const MAX_WRITTEN = 100

/** Loads the GGUF file in a folder, with all layers on the GPU if one is required; throws an `UnusableWeightsError` if its weights are at fault. */
export async function openGguf(
  binding: Binding,
  { folder, threads, gpu = '' }: { folder: string; threads: number; gpu?: string },
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
  const llama = await (gpu === 'cuda'
    ? withCuda(binding, settings)
    : binding.getLlama({ gpu: 'auto', ...settings }))
  const placed = gpu === 'cuda' ? ({ gpuLayers: 'max' } as const) : {}
  const model = await llama.loadModel({ modelPath: path, ...placed }).catch(async (err: unknown) => {
    throw await judgeLoadFailure(err, written)
  })
  if (gpu === 'cuda') process.stderr.write(`${model.gpuLayers} layers are on the GPU\n`)
  return { llama, model }
}

/** Opens llama.cpp's CUDA backend. Its binary loads only with a driver for CUDA 13. */
function withCuda(
  binding: Binding,
  settings: Omit<Parameters<Binding['getLlama']>[0], 'gpu'>,
): Promise<Llama> {
  return binding.getLlama({ gpu: 'cuda', ...settings }).catch((cause: unknown) => {
    throw new Error(
      'llama.cpp cannot use CUDA here; it needs a driver for CUDA 13 and a GPU that it supports',
      {
        cause,
      },
    )
  })
}

/** Finds the one GGUF file under a folder; for a split model, its first part. */
function findGguf(folder: string): string {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => name.endsWith('.gguf')).toSorted()
  const [first] = files
  if (first === undefined) throw new UnusableWeightsError('the model has no .gguf file')
  return join(folder, first)
}
