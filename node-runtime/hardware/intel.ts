import { runProgram } from '../../platform/processes/run-program.ts'

const TIMEOUT_MS = 10_000
const HEADING = 'Device Name'

/** Returns the names of this machine's Intel XPUs; an empty list when xpu-smi is missing or fails. */
export async function findXpus(): Promise<string[]> {
  try {
    // Property 2 is the name. Without a device the tool prints a sentence instead of the header row.
    const { stdout } = await runProgram('xpu-smi', ['discovery', '--dump', '2'], { timeout: TIMEOUT_MS })
    const [heading, ...names] = stdout.split('\n').map((line) => line.trim().replaceAll('"', ''))
    return heading === HEADING ? names.filter(Boolean) : []
  } catch {
    return []
  }
}
