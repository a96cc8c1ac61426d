import { runProgram } from './run-program.ts'

const PROBE_MS = 5_000

/**
 * util-linux's `unshare`: in a user namespace of its own a process may not look into others of its user, in one of process
 * ids it cannot signal them, and a network of its own has nothing in it. It goes when `unshare` goes.
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

/** What stands before a command that is to run in namespaces of its own; empty where this machine has none for it. */
export function ownNamespaces(): Promise<readonly string[]> {
  probed ??= probe()
  return probed
}

async function probe(): Promise<readonly string[]> {
  const [program = '', ...options] = UNSHARE
  try {
    await runProgram(program, [...options, process.execPath, '--version'], { timeout: PROBE_MS })
    return UNSHARE
  } catch {
    return []
  }
}
