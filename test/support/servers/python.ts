import { execFileSync } from 'node:child_process'

let found: string | undefined

/**
 * Returns the interpreter itself. A program called python3 may be a script that searches for it, in folders that no
 * child of a node can read.
 */
export const realPython = (): string =>
  (found ??= execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim())
