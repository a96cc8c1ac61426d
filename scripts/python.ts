import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { readConfig } from '../platform/config.ts'
import { run } from './run-command.ts'

/** Lock files of the Python environments that only checks need. */
const LOCKS = join(import.meta.dirname, 'python')

/**
 * Returns the interpreter of the environment with Ruff and pytest. The first call on a machine installs it into the
 * cache folder. Throws if this machine has no suitable Python.
 */
export async function pythonForChecks(): Promise<string> {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: console.log, locksDir: LOCKS }
  return (await ensurePythonEnv('checks', options)).python
}

const pyright = (): string => fileURLToPath(import.meta.resolve('pyright/index.js'))

/** The commands of each task; a task stops at its first failure. `pyproject.toml` has the settings. */
const TASKS: Record<string, (python: string, args: string[]) => string[][]> = {
  lint: (python) => [
    [ruff(python), 'check', '--quiet', '.'],
    [ruff(python), 'format', '--quiet', '--check', '.'],
    // The npm package runs on this process's Node; the PyPI package would download its own Node.
    [process.execPath, pyright(), '--pythonpath', python],
  ],
  test: (python, args) => [[python, '-m', 'pytest', ...args]],
  format: (python) => [
    [ruff(python), 'check', '--quiet', '--fix', '--exit-zero', '.'],
    [ruff(python), 'format', '--quiet', '.'],
  ],
}

const ruff = (python: string): string => join(dirname(python), 'ruff')

/** Runs `npm run python:lint`, `python:test` or `python:format`. */
async function main([name = '', ...args]: string[]): Promise<boolean> {
  const task = TASKS[name]
  if (!task) throw new Error(`Name a task: ${Object.keys(TASKS).join(', ')}.`)
  const python = await pythonForChecks().catch((err: unknown) => {
    console.error(
      `${err instanceof Error ? err.message : String(err)}\nSee https://www.python.org/downloads/.`,
    )
  })
  if (python === undefined) return false
  for (const command of task(python, args)) if (!(await run(command))) return false
  return true
}

if (import.meta.main) process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1
