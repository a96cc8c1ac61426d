import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Runs a program to its end and resolves with its output; a failure carries what the program wrote until then. */
export const runProgram = promisify(execFile)
