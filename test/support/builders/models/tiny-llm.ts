import { spawn } from 'node:child_process'
import { cp } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { pythonOf } from '../../servers/nodes/trainer.ts'
import { requireInstalled } from '../../skip.ts'
import { flagsOf, buildFolders } from './made-models.ts'

const MAKER = join(import.meta.dirname, 'tiny_llm.py')
const PROBE = join(import.meta.dirname, '../probes/llm_probe.py')
const TRAINERS = join(import.meta.dirname, '..', '..', '..', '..', 'node-runtime', 'trainers')

/** Options that make a tiny model differ from the default one. */
export interface TinyLlm {
  seed?: number
  hidden?: number
  layers?: number
  heads?: number
  kvHeads?: number
  intermediate?: number
  vocab?: number
  extraVocab?: number
  positions?: number
  dtype?: 'bfloat16' | 'float16' | 'float32'
  shardSize?: string
  tied?: boolean
  noTemplate?: boolean
  /** Its chat template opens a reasoning block. */
  thinks?: boolean
  /** A token whose embedding is not a number, so that prompts with it fail. */
  poisoned?: string
  /** Its only response, in distinct pieces; without it the weights are random. */
  says?: readonly string[]
}

/** Returns the interpreter of the language model environment, installed on first use (minutes on a new machine). */
export const llmPython = (): Promise<string> => pythonOf('llm')

/** For `before`: skips the tests of a suite, with the reason, if that environment can't be installed. */
export async function requireLlm(this: Mocha.Context): Promise<void> {
  this.timeout(1_800_000)
  await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, llmPython)
}

/**
 * Writes a tiny Llama with random weights, a byte-level tokenizer and a chat template to `folder`. Equal models are
 * created once per machine, because the libraries take seconds to import.
 */
export async function makeTinyLlm(folder: string, options: TinyLlm = {}): Promise<void> {
  const inputs = flagsOf(options)
  const making = { program: MAKER, inputs, args: (draft: string) => [draft, ...inputs] }
  const [kept = ''] = await buildFolders(await llmPython(), [making])
  await cp(kept, folder, { recursive: true })
}

/**
 * Calls `llm_probe.py`, which uses the trainer's code for models and tokens. Its libraries take seconds to import, so
 * callers should send many requests at once. `packages` is a folder with further packages.
 */
export async function probeLlm<T extends unknown[]>(
  requests: { ask: string; [name: string]: unknown }[],
  { packages = '', ...env }: { packages?: string; [name: string]: string } = {},
): Promise<T> {
  const path = [TRAINERS, packages].filter(Boolean).join(delimiter)
  const child = spawn(await llmPython(), [PROBE], {
    env: pythonProcessEnv({ PYTHONPATH: path, OMP_NUM_THREADS: '1', ...env }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify(requests))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  const last = out.trimEnd().split('\n').at(-1)
  if (!last) throw new Error(complaint)
  return JSON.parse(last) as T
}
