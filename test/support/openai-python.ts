import { join } from 'node:path'
import { ensurePythonEnv } from '../../node-runtime/python-env.ts'
import { readConfig } from '../../platform/config.ts'
import { requireInstalled } from './skip.ts'

const LOCKS = join(import.meta.dirname, 'python')

/** The interpreter of the environment that holds the official client and nothing else, made on first use (seconds). */
export async function openaiPython(): Promise<string> {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {}, locksDir: LOCKS }
  return (await ensurePythonEnv('openai', options)).python
}

/** For `before`: skips the suite by name, with the reason, where the client cannot be installed. */
export async function requireOpenaiClient(this: Mocha.Context): Promise<void> {
  this.timeout(600_000)
  await requireInstalled(this, process.env.HEARTH_TEST_OPENAI_MISSING, openaiPython)
}
