import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runProgram } from '../../platform/processes/run-program.ts'
import { ROOT } from '../paths.ts'

export interface ImportTarget {
  base_url: string
  operations_key: string
  account_id: string
}

/**
 * Calls `write` to create a model's files in a temporary folder, then imports the returned path with the operators'
 * import command. Returns the name of the endpoint.
 */
export async function importMadeModel(
  { base_url, operations_key, account_id }: ImportTarget,
  { name, task, write }: { name: string; task: string; write: (folder: string) => Promise<string> },
): Promise<string> {
  const unique = `${name}-${Date.now().toString(36)}`
  const folder = await mkdtemp(join(tmpdir(), 'hearth-demo-'))
  try {
    const path = await write(folder)
    const options = { name: unique, path, task, account: account_id }
    const flags = Object.entries(options).flatMap(([flag, value]) => [`--${flag}`, value])
    const env = { ...process.env, HEARTH_BASE_URL: base_url, HEARTH_OPERATIONS_KEY: operations_key }
    await runProgram(process.execPath, ['cli/hearth.ts', 'models', 'import', ...flags], { cwd: ROOT, env })
    return unique
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
