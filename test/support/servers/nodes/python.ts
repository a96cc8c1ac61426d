import { execFileSync } from 'node:child_process'

let found: string | undefined

/**
 * Returns the real interpreter. A program named python3 may be a script that searches for the interpreter in folders
 * that no child process of a node can read.
 */
export const realPython = (): string =>
  (found ??= execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim())
