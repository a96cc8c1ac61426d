import { randomUUID } from 'node:crypto'
import { existsSync, readlinkSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import type { ProcessDriver } from '../processes/process-driver.ts'
import type { Sandbox } from '../processes/sandbox.ts'
import { commandOf, INSIDE, type StartedTool, TOOL_ENV, type ToolDriver, type ToolRun } from './driver.ts'

export interface ProcessToolsOptions {
  driver: ProcessDriver
  /** Returns the interpreter of a locked environment, or the plain one of this machine. */
  python: (environment: string | null) => Promise<string>
}

/** Runs tools as processes with namespaces, a root and limits of their own (processes/sandbox.py). */
export class ProcessTools implements ToolDriver {
  readonly #options: ProcessToolsOptions

  constructor(options: ProcessToolsOptions) {
    this.#options = options
  }

  async lack(): Promise<string | undefined> {
    if (process.platform !== 'linux') return 'it is not Linux'
    const nothing = { mounts: [], env: {}, memoryMb: 64, temporaryMb: 1, cpus: 1, processes: 8, cpuS: 5 }
    const probe = await this.#run('/bin/sh', ['-c', ':'], nothing)
    const [said, { code }] = [await firstLine(probe.stderr), await probe.exited]
    return code === 0 ? undefined : said || `a probe ended with ${code}`
  }

  async start({ tool, program, input, egress, timeS }: ToolRun): Promise<StartedTool> {
    const { limits, python_env = null } = tool
    const needsPython = tool.command.some((part) => part.includes('{python}'))
    const python = needsPython ? await this.#options.python(python_env) : ''
    const [first = '', ...args] = commandOf(tool, { node: INSIDE.node, python })
    const mounts: [string, string][] = [[input, INSIDE.input]]
    if (tool.command.some((part) => part.includes('{node}'))) mounts.push([process.execPath, INSIDE.node])
    if (program !== undefined) mounts.push([program, INSIDE.tool])
    if (egress !== undefined) mounts.push([egress, INSIDE.egress])
    if (needsPython) mounts.push(...prefixesOf(python).map((path): [string, string] => [path, path]))
    const { memory_mb, temporary_mb, cpus, processes } = limits
    return this.#run(first, args, {
      mounts,
      env: { ...TOOL_ENV, ...tool.env },
      memoryMb: memory_mb,
      temporaryMb: temporary_mb,
      cpus,
      processes,
      cpuS: timeS * cpus,
    })
  }

  async #run(command: string, args: readonly string[], sandbox: Sandbox): Promise<StartedTool> {
    const { driver } = this.#options
    const name = `tool-${randomUUID().slice(0, 13)}`
    const managed = await driver.start({ name, command, args, confinement: undefined, sandbox })
    return {
      stdout: managed.stdout,
      stderr: managed.stderr,
      exited: managed.exited,
      get excess() {
        return managed.excess
      },
      kill: () => void managed.stop({ graceMs: 0 }),
    }
  }
}

async function firstLine(stream: AsyncIterable<unknown>): Promise<string> {
  let text = ''
  for await (const chunk of stream) if (text.length < 1_000) text += String(chunk)
  return text.split('\n')[0] ?? ''
}

/** Returns the folders of an interpreter: of its environment, and of the installation behind it. */
function prefixesOf(python: string): string[] {
  const prefixes = new Set<string>()
  for (let at = python, hops = 0; hops < 8; hops++) {
    // `bin/python` is one level below its prefix. What is in /usr is there already.
    const prefix = dirname(dirname(at))
    if (!isWithin(prefix, '/usr') && prefix !== '/' && existsSync(prefix)) prefixes.add(prefix)
    try {
      at = resolve(dirname(at), readlinkSync(at))
    } catch {
      break
    }
  }
  return [...prefixes].filter((path) => isAbsolute(path))
}

const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)
