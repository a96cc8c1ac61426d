import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { readConfig } from '../../../platform/config.ts'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { pythonOf } from '../servers/trainer.ts'
import { requireInstalled } from '../skip.ts'

const MAKER = join(import.meta.dirname, 'tiny_llm.py')
const PROBE = join(import.meta.dirname, 'llm_probe.py')
const TRAINERS = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'trainers')

/** The differences of a tiny model from the usual one. */
export interface TinyLlm {
  seed?: number
  hidden?: number
  layers?: number
  vocab?: number
  extraVocab?: number
  positions?: number
  dtype?: 'bfloat16' | 'float16' | 'float32'
  shardSize?: string
  tied?: boolean
  noTemplate?: boolean
  /** Its template begins a trace for it. */
  thinks?: boolean
  /** Its only response in pieces, none of them twice; without it the weights are random. */
  says?: readonly string[]
}

/** The interpreter of the environment of language models, made on first use (minutes on a new machine). */
export const llmPython = (): Promise<string> => pythonOf('llm')

/** For `before`: skips the tests of a suite by name, with the reason, where that environment cannot be had. */
export async function requireLlm(this: Mocha.Context): Promise<void> {
  this.timeout(1_800_000)
  await requireInstalled(this, process.env.HEARTH_TEST_LLM_MISSING, llmPython)
}

/**
 * Writes a tiny Llama with random weights, a byte-level tokenizer and a chat template to `folder`. Equal ones are made
 * once per machine, because the libraries take seconds to import.
 */
export async function makeTinyLlm(folder: string, options: TinyLlm = {}): Promise<void> {
  const flags = Object.entries(options).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    if (value === false || value === undefined) return []
    if (value === true) return [flag]
    return [flag, Array.isArray(value) ? JSON.stringify(value) : String(value)]
  })
  const python = await llmPython()
  const made = createHash('sha256')
    .update(await readFile(MAKER))
    .update(JSON.stringify([python, flags]))
    .digest('hex')
  const kept = join(readConfig().HEARTH_CACHE_DIR, 'test-models', made)
  if (!existsSync(kept)) {
    const draft = `${kept}.${randomUUID()}`
    await mkdir(draft, { recursive: true })
    await runProgram(python, [MAKER, draft, ...flags], { env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }) })
    // Of two that make it at once the later one throws its away.
    await rename(draft, kept).catch(() => rm(draft, { recursive: true }))
  }
  await cp(kept, folder, { recursive: true })
}

/**
 * Calls `llm_probe.py`, which uses the trainer's code for models and tokens. Its libraries take seconds to import, so
 * callers send many requests at once.
 */
export async function probeLlm<T extends unknown[]>(
  requests: { ask: string; [name: string]: unknown }[],
): Promise<T> {
  const child = spawn(await llmPython(), [PROBE], {
    env: pythonProcessEnv({ PYTHONPATH: TRAINERS, OMP_NUM_THREADS: '1' }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify(requests))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  const last = out.trimEnd().split('\n').at(-1)
  if (!last) throw new Error(complaint)
  return JSON.parse(last) as T
}
