import { randomUUID } from 'node:crypto'
import type { ProcessDriver } from '../processes/process-driver.ts'
import type { Sandbox } from '../processes/sandbox.ts'
import { type StartedTool, TOOL_ENV, type ToolDriver, type ToolRun } from './driver.ts'
import { type FindPython, withInterpreters } from './interpreters.ts'

export interface ProcessToolsOptions {
  driver: ProcessDriver
  python: FindPython
}

/** Runs tools as processes with their own namespaces, root and limits (processes/sandbox.py). */
export class ProcessTools implements ToolDriver {
  readonly runsImages = false
  readonly #options: ProcessToolsOptions

  constructor(options: ProcessToolsOptions) {
    this.#options = options
  }

  async lack(): Promise<string | undefined> {
    if (process.platform !== 'linux') return 'this machine does not run Linux'
    const nothing = { mounts: [], env: {}, memoryMb: 64, temporaryMb: 1, cpus: 1, processes: 8, cpuS: 5 }
    const probe = await this.#run('/bin/sh', ['-c', ':'], nothing)
    const [said, { code }] = [await firstLine(probe.stderr), await probe.exited]
    return code === 0 ? undefined : said || `a probe exited with status ${code}`
  }

  async start(run: ToolRun): Promise<StartedTool> {
    const { limits, env, image } = run.tool
    if (image !== undefined) throw new Error('a tool with an image needs a container engine')
    const { command, mounts } = await withInterpreters(run, this.#options.python)
    const [first = '', ...args] = command
    return this.#run(first, args, {
      mounts,
      env: { ...TOOL_ENV, ...env },
      memoryMb: limits.memory_mb,
      temporaryMb: limits.temporary_mb,
      cpus: limits.cpus,
      processes: limits.processes,
      cpuS: run.timeS * limits.cpus,
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
      gone: managed.exited,
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
