import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { signalProcess, startTimeOf } from './process-table.ts'

const LAUNCHER = fileURLToPath(new URL('launcher.py', import.meta.url))

export interface ProcessSpec {
  /** Unique among what runs on this node; names the pid file. */
  name: string
  command: string
  args: readonly string[]
  cwd?: string
  /** The whole environment of the command; this process's own by default. */
  env?: NodeJS.ProcessEnv
}

export interface ProcessExit {
  /** Exit status; 128 + n after signal n. */
  code: number
}

interface PidFile {
  launcher: number
  launcher_start: string
  group: number
}

/** A child with everything below it, in a process group of its own. */
export class ManagedProcess {
  readonly name: string
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles once the whole tree is gone. */
  readonly exited: Promise<ProcessExit>
  readonly #child: ChildProcess
  readonly #group: Promise<number | undefined>
  #gone = false

  constructor(
    name: string,
    child: ChildProcess,
    group: Promise<number | undefined>,
    afterwards: () => Promise<void>,
  ) {
    this.name = name
    this.#child = child
    this.#group = group
    // Node drops what nobody reads once a child has ended, and a reader that comes then would wait for ever.
    this.stdout = child.stdout!.pipe(new PassThrough())
    this.stderr = child.stderr!.pipe(new PassThrough())
    this.exited = new Promise((resolve) => {
      const finish = async (code: number | null) => {
        // A launcher that ended by itself has taken the tree with it; one that was killed has not.
        const pid = code === null ? await group : undefined
        if (pid) signalProcess(-pid, 'SIGKILL')
        this.#gone = true
        await afterwards()
        resolve({ code: code ?? 137 })
      }
      child.once('error', () => void finish(127))
      child.once('exit', (code) => void finish(code))
    })
  }

  get gone(): boolean {
    return this.#gone
  }

  /** Signals the process group. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const pid = await this.#group
    if (pid && !this.#gone) signalProcess(-pid, signal)
  }

  /** TERM, then KILL after `graceMs`; resolves when nothing of the tree is left. */
  async stop({ graceMs }: { graceMs: number }): Promise<ProcessExit> {
    if (this.#gone) return this.exited
    await this.signal('SIGTERM')
    const timer = setTimeout(() => void this.signal('SIGKILL'), graceMs)
    // A launcher that does not answer goes as well; its death signal takes the command.
    const last = setTimeout(() => this.#child.kill('SIGKILL'), graceMs + 1_000)
    try {
      return await this.exited
    } finally {
      clearTimeout(timer)
      clearTimeout(last)
    }
  }

  /** Process id of the command itself; undefined once it has gone. */
  async pid(): Promise<number | undefined> {
    const pid = await this.#group
    return this.#gone ? undefined : pid
  }
}

/**
 * Starts children that cannot outlive the node: a launcher kills the tree when
 * the node dies, and pid files let the next start reap what a launcher missed.
 */
export class ProcessDriver {
  readonly #pidDir: string
  readonly #python: () => Promise<string>
  readonly #running = new Set<ManagedProcess>()

  /** `python` runs the launcher; it is asked for when the first child is started. */
  constructor({ stateDir, python }: { stateDir: string; python: () => Promise<string> }) {
    this.#pidDir = join(stateDir, 'pids')
    this.#python = python
  }

  get running(): readonly ManagedProcess[] {
    return [...this.#running]
  }

  async start(spec: ProcessSpec): Promise<ManagedProcess> {
    const [python] = await Promise.all([this.#python(), mkdir(this.#pidDir, { recursive: true })])
    const child = spawn(python, ['-I', '-S', LAUNCHER, spec.command, ...spec.args], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
      ...(spec.cwd !== undefined && { cwd: spec.cwd }),
      env: withoutSecrets(spec.env ?? process.env),
    })
    const pidFile = join(this.#pidDir, `${encodeURIComponent(spec.name)}.json`)
    const group = groupOf(child)
    const managed = new ManagedProcess(spec.name, child, group, async () => {
      this.#running.delete(managed)
      await rm(pidFile, { force: true })
    })
    this.#running.add(managed)
    await writePidFile(pidFile, child, await group)
    return managed
  }

  /** Ends what an earlier life of this node left behind. */
  async reap(): Promise<number> {
    const names = await readdir(this.#pidDir).catch(() => [])
    const reaped = await Promise.all(names.map((name) => reapOne(join(this.#pidDir, name))))
    return reaped.filter(Boolean).length
  }

  /** Stops everything at once: TERM, then KILL after `graceMs`. */
  async stopAll(options: { graceMs: number }): Promise<void> {
    await Promise.all(this.running.map((managed) => managed.stop(options)))
  }
}

async function writePidFile(path: string, child: ChildProcess, group: number | undefined): Promise<void> {
  if (!child.pid || !group) return
  const content: PidFile = {
    launcher: child.pid,
    launcher_start: (await startTimeOf(child.pid)) ?? '',
    group,
  }
  await writeFile(path, JSON.stringify(content))
  // It may have ended while the file was being written.
  if (child.exitCode !== null || child.signalCode !== null) await rm(path, { force: true })
}

/** What a child may know of the node's environment: none of its own settings, some of which are secrets. */
const withoutSecrets = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(HEARTH_|S3_|DATABASE_URL|AWS_)/.test(name)))

/** The process id, and so the group, of the command: the launcher's one line on the lifeline. */
function groupOf(child: ChildProcess): Promise<number | undefined> {
  return new Promise((resolve) => {
    const lifeline = child.stdio[3] as Readable | null
    lifeline?.once('data', (data: Buffer) => resolve(Number.parseInt(data.toString(), 10) || undefined))
    lifeline?.once('error', () => resolve(undefined))
    lifeline?.once('close', () => resolve(undefined))
    child.once('error', () => resolve(undefined))
  })
}

async function reapOne(path: string): Promise<boolean> {
  let found = false
  try {
    const { launcher, launcher_start, group } = JSON.parse(await readFile(path, 'utf8')) as PidFile
    found = launcher_start !== '' && (await startTimeOf(launcher)) === launcher_start
    if (found) {
      signalProcess(-group, 'SIGKILL')
      for (let i = 0; i < 20 && (await startTimeOf(launcher)) === launcher_start; i++) await sleep(50)
      signalProcess(launcher, 'SIGKILL')
    }
  } catch {
    // A pid file cut short by a crash names nobody.
  }
  await rm(path, { force: true })
  return found
}
