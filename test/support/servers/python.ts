import { execFileSync } from 'node:child_process'

let found: string | undefined

/** The interpreter itself: what is called python3 may be a script that looks for it, in folders no child of a node can read. */
export const realPython = (): string =>
  (found ??= execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim())
