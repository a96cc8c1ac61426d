import { runProgram } from './run-program.ts'

const PROBE_TIMEOUT_MS = 5_000

/**
 * Uses util-linux's `unshare`: in its own user namespace a process cannot inspect others of its user, in its own pid
 * namespace it cannot signal them, and its network namespace is empty. The process exits when `unshare` does.
 */
const UNSHARE = [
  'unshare',
  '--user',
  '--map-current-user',
  '--pid',
  '--fork',
  '--kill-child',
  '--net',
  '--ipc',
]

let probed: Promise<readonly string[]> | undefined

/** Returns the prefix of a command that runs in its own namespaces; empty if this machine does not support them. */
export function ownNamespaces(): Promise<readonly string[]> {
  probed ??= probe()
  return probed
}

async function probe(): Promise<readonly string[]> {
  const [program = '', ...options] = UNSHARE
  try {
    await runProgram(program, [...options, process.execPath, '--version'], { timeout: PROBE_TIMEOUT_MS })
    return UNSHARE
  } catch {
    return []
  }
}
