import { InputFiles } from './input-files.ts'
import { Arena, type Kernels, loadKernels } from './kernels.ts'
import { OutputFiles } from './output-files.ts'

/** What an operation works with; one of each per worker. */
export interface Bench {
  kernels: Kernels
  arena: Arena
  inputs: InputFiles
  outputs: OutputFiles
  /** Bytes that the chunks of all inputs and the output may take together. */
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
