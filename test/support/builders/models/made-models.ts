import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { readConfig } from '../../../../platform/config.ts'
import { runProgram } from '../../../../platform/processes/run-program.ts'

const RUN_MANY = join(import.meta.dirname, '../probes/run_many.py')

/** Converts options to command-line flags: `extraVocab: 3` becomes `--extra-vocab 3`. */
export const flagsOf = (options: object): string[] =>
  Object.entries(options as Record<string, unknown>).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    if (value === false || value === undefined) return []
    if (value === true) return [flag]
    return [flag, typeof value === 'string' ? value : JSON.stringify(value)]
  })

/** A folder that a Python program creates. */
export interface FolderRecipe {
  program: string
  /** The inputs that the result depends on, in addition to the program itself. */
  inputs: readonly string[]
  /** Returns the arguments of the program for a target folder. */
  args: (folder: string) => string[]
}

/**
 * Returns folders that Python programs create. Identical ones are created only once per machine. All missing ones are
 * created in one process, because the libraries take seconds to import.
 */
export async function buildFolders(python: string, makings: readonly FolderRecipe[]): Promise<string[]> {
  const kept = await Promise.all(makings.map((making) => placeOf(python, making)))
  const drafts = new Map<string, string>()
  const commands: string[][] = []
  for (const [i, { program, args }] of makings.entries()) {
    const folder = kept[i]
    if (folder === undefined || existsSync(folder) || drafts.has(folder)) continue
    const draft = `${folder}.${randomUUID()}`
    await mkdir(draft, { recursive: true })
    drafts.set(folder, draft)
    commands.push([program, ...args(draft)])
  }
  if (commands.length > 0) {
    await runProgram(python, [RUN_MANY, JSON.stringify(commands)], {
      env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }),
    })
  }
  for (const [folder, draft] of drafts) {
    // If two processes create the same folder at once, the later one discards its copy.
    await rename(draft, folder).catch(() => rm(draft, { recursive: true }))
  }
  return kept
}

async function placeOf(python: string, { program, inputs }: FolderRecipe): Promise<string> {
  const made = createHash('sha256')
    .update(await readFile(program))
    .update(JSON.stringify([python, inputs]))
    .digest('hex')
  return join(readConfig().HEARTH_CACHE_DIR, 'test-models', made)
}
