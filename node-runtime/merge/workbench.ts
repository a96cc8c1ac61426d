import { InputFiles } from './input-files.ts'
import { Arena, type Kernels, loadKernels } from './kernels.ts'
import { OutputFiles } from './output-files.ts'

/** The tools of an operation; each worker has one set. */
export interface Bench {
  kernels: Kernels
  arena: Arena
  inputs: InputFiles
  outputs: OutputFiles
  /** The bytes that the chunks of all inputs and the output may use together. */
  chunkBytes: number
}

export function openBench(chunkBytes: number): Bench {
  const kernels = loadKernels()
  const arena = new Arena(kernels.memory)
  return {
    kernels,
    arena,
    inputs: new InputFiles(arena, kernels),
    outputs: new OutputFiles(arena),
    chunkBytes,
  }
}
