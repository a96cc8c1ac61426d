import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Runs a program until it exits and resolves with its output; a failure carries the output so far. */
export const runProgram = promisify(execFile)
