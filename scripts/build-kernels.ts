import { join } from 'node:path'
import asc from 'assemblyscript/asc'

const ROOT = join(import.meta.dirname, '..')
const MERGE = 'node-runtime/merge'

/** Compiles node-runtime/merge/assembly; the same sources and compiler yield the same bytes. */
export async function buildKernels(outFile: string): Promise<void> {
  const { error } = await asc.main(
    [
      `${MERGE}/assembly/index.ts`,
      '--baseDir',
      ROOT,
      '--outFile',
      outFile,
      '--runtime',
      'stub',
      '--enable',
      'simd',
      '-O3',
      '--converge',
      '--noAssert',
      '--disableWarning',
      '112',
    ],
    { stderr: process.stderr },
  )
  if (error) throw error
}

if (import.meta.main) await buildKernels(join(MERGE, 'kernels.wasm'))
