import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  ensurePythonEnv,
  hasPythonEnv,
  type PythonEnvOptions,
} from '../../node-runtime/environments/python-env.ts'
import { installSentenceTransformers } from '../embeddings/peers.ts'
import { hasModule } from './machine.ts'
import { MissingError } from './sections.ts'

const LOCKS = join(import.meta.dirname, '..', '..', 'node-runtime', 'environments', 'python')

/** Returns the interpreter of an installed environment whose lock has Liger kernels; otherwise `python` if it has them. */
export async function ligerPython(python: string, options: PythonEnvOptions): Promise<string> {
  for (const name of await readdir(LOCKS)) {
    const lock = join(LOCKS, name, 'requirements.lock')
    if (!existsSync(lock) || !/^liger-kernel==/m.test(readFileSync(lock, 'utf8'))) continue
    if (await hasPythonEnv(name, options)) return (await ensurePythonEnv(name, options)).python
  }
  if (await hasModule(python, 'liger_kernel')) return python
  throw new MissingError('the package liger-kernel is not installed')
}

/** Returns the interpreter of the environment `vllm`, if it is installed. */
export async function vllmPython(options: PythonEnvOptions): Promise<string> {
  if (await hasPythonEnv('vllm', options)) return (await ensurePythonEnv('vllm', options)).python
  throw new MissingError('the environment vllm is not installed; pass --vllm to use another one')
}

/** Returns an interpreter with sentence-transformers, which is installed once per machine unless `python` has it. */
export async function sentenceTransformersPython(
  python: string,
  { cacheDir, log }: PythonEnvOptions,
): Promise<string> {
  const isThere = (interpreter: string) => hasModule(interpreter, 'sentence_transformers')
  if (await isThere(python)) return python
  const below = createHash('sha256').update(python).digest('hex').slice(0, 16)
  const home = join(cacheDir, 'python', `bench-sentence-transformers-${below}`)
  const own = join(home, 'bin', 'python')
  if (await isThere(own)) return own
  log('installing sentence-transformers, once')
  await rm(home, { recursive: true, force: true })
  return await installSentenceTransformers(home, python).catch((cause: unknown) => {
    const message = 'the package sentence-transformers is not installed, and could not be downloaded'
    throw new MissingError(message, { cause })
  })
}
