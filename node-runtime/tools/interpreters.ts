import { existsSync, readlinkSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { commandOf, INSIDE, type ToolRun } from './driver.ts'

/** Returns the interpreter of a locked environment, or this machine's own for null. */
export type FindPython = (environment: string | null) => Promise<string>

/** A run with the machine's interpreters: its command and its read-only mounts. */
export interface InterpreterRun {
  command: string[]
  mounts: [source: string, target: string][]
}

/** Prepares a run whose root file system has the machine's programs. */
export async function withInterpreters(
  { tool, program, input, egress }: ToolRun,
  findPython: FindPython,
): Promise<InterpreterRun> {
  const uses = (name: string) => tool.command.some((part) => part.includes(`{${name}}`))
  const python = uses('python') ? await findPython(tool.python_env ?? null) : ''
  const mounts: InterpreterRun['mounts'] = [[input, INSIDE.input]]
  if (uses('node')) mounts.push([process.execPath, INSIDE.node])
  if (program !== undefined) mounts.push([program, INSIDE.tool])
  if (egress !== undefined) mounts.push([egress, INSIDE.egress])
  if (python !== '') mounts.push(...prefixesOf(python).map((path): [string, string] => [path, path]))
  return { command: commandOf(tool, { node: INSIDE.node, python }), mounts }
}

/** Returns the folders of an interpreter: its environment, and the installation that it is based on. */
function prefixesOf(python: string): string[] {
  const prefixes = new Set<string>()
  for (let at = python, hops = 0; hops < 8; hops++) {
    // `bin/python` is one level below its prefix. /usr is already mounted.
    const prefix = dirname(dirname(at))
    if (!isWithin(prefix, '/usr') && prefix !== '/' && existsSync(prefix)) prefixes.add(prefix)
    try {
      at = resolve(dirname(at), readlinkSync(at))
    } catch {
      break
    }
  }
  return [...prefixes]
}

const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)
