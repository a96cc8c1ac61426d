import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { excessOf, MemoryWatch } from '../../platform/processes/memory-watch.ts'
import { identify, isAlive } from '../../platform/processes/process-identity.ts'
import { treeOf } from '../../platform/processes/process-tree.ts'
import { signalGroup, signalProcess } from '../../platform/processes/signals.ts'
import {
  childEnv,
  type Confinement,
  type ConfinementMechanisms,
  homeEnv,
  LAUNCHER,
  orderOf,
  probeConfinement,
} from './confinement.ts'
import { ControlGroups, type RunGroup } from './control-groups.ts'
import { KernelMemory } from './kernel-memory.ts'
import { sandboxMb } from './sandbox-usage.ts'
import { type Sandbox, sandboxOrder } from './sandbox.ts'

/** The maximum length of a Unix socket path that every system accepts. */
const MAX_SOCKET = 100
/** Short, because callers' code can fill memory faster than models do. */
const SANDBOX_INTERVAL_MS = 100
/** Longer, because the kernel's memory grows more slowly, and counting it can take seconds. */
const KERNEL_INTERVAL_MS = 1_000

export interface ProcessSpec {
  /** Unique on this node; also the name of the pid file. */
  name: string
  command: string
  args: readonly string[]
  cwd?: string
  /** The full environment of the command; defaults to the harmless part of this process's environment. */
  env?: NodeJS.ProcessEnv
  /** The permissions of the process; undefined for commands that read no untrusted data, and for those in a sandbox. */
  confinement: Confinement | undefined
  /** For a command that must not see anything of this machine; `confinement` is then unset. */
  sandbox?: Sandbox
  /** A folder from `makeFolder`; created by default. */
  folder?: string
}

export interface ProcessExit {
  /** The exit status, or 128 + n after signal n. */
  code: number
}

interface MemoryLimitOptions {
  isSandbox?: boolean
  /** The control groups of a sandbox; removed with it. */
  group?: RunGroup | undefined
}

interface PidFile {
  launcher: number
  launcher_start: string
  group: number
}

export interface ProcessDriverOptions {
  stateDir: string
  python: () => Promise<string>
  /** Opens the control groups for sandboxes. */
  groups?: () => Promise<ControlGroups | undefined>
}

/** A child with all its descendants, in its own process group. */
export class ManagedProcess {
  readonly name: string
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles once the whole tree has exited. */
  readonly exited: Promise<ProcessExit>
  readonly #child: ChildProcess
  readonly #group: Promise<number | undefined>
  #gone = false
  #watch: MemoryWatch | undefined
  #kernelWatch: MemoryWatch | undefined
  #limits: { limitMb: number; group: RunGroup | undefined } | undefined
  /** The error message if the node ended it because it exceeded its memory limit. */
  excess: string | undefined

  constructor(
    name: string,
    child: ChildProcess,
    group: Promise<number | undefined>,
    afterwards: () => Promise<void>,
  ) {
    this.name = name
    this.#child = child
    this.#group = group
    // Node discards unread output once a child has exited, and a reader that is attached later would wait forever.
    const { stdout, stderr } = child
    if (!stdout || !stderr) throw new Error(`the output of process "${name}" is not piped`)
    this.stdout = stdout.pipe(new PassThrough())
    this.stderr = stderr.pipe(new PassThrough())
    this.exited = new Promise((resolve) => {
      const finish = async (code: number | null) => {
        // A launcher that exits normally has ended the tree; a killed launcher has not.
        const pid = code === null ? await group : undefined
        if (pid) signalGroup(pid, 'SIGKILL')
        this.#gone = true
        this.#watch?.[Symbol.dispose]()
        this.#kernelWatch?.[Symbol.dispose]()
        await this.#checkGroup()
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

  /** Ends the whole tree as soon as it uses more memory than this. In a sandbox, every kind of memory counts. */
  limitMemory(limitMb: number, { isSandbox = false, group }: MemoryLimitOptions = {}): void {
    this.#limits = { limitMb, group }
    const measure = async (pids: readonly number[]): Promise<number> => {
      const usedMb = await sandboxMb(pids[0] ?? 0, pids)
      return (await group?.wasFull()) ? Math.max(usedMb, limitMb + 1) : usedMb
    }
    const watched = {
      pids: async () => {
        const pid = await this.pid()
        return pid === undefined ? [] : treeOf(pid, { everyThread: isSandbox })
      },
      limitMb,
      onOver: (found: string) => {
        this.excess = found
        void this.stop({ graceMs: 0 })
      },
    }
    this.#watch = new MemoryWatch({
      ...watched,
      ...(isSandbox && { usedMb: measure, intervalMs: SANDBOX_INTERVAL_MS }),
    })
    if (!isSandbox) return
    const kernel = new KernelMemory({ list: watched.pids, groupMb: group && (() => group.kernelMb()) })
    void this.exited.then(() => kernel[Symbol.dispose]())
    this.#kernelWatch = new MemoryWatch({
      ...watched,
      // Groups already count the kernel's memory.
      usedMb: group ? () => Promise.resolve(0) : (pids) => kernel.usedMb(pids),
      excess: (pids) => kernel.excess(pids),
      intervalMs: KERNEL_INTERVAL_MS,
    })
  }

  /**
   * Records an excess if the kernel killed a process because the group was full; the others may then exit by
   * themselves.
   */
  async #checkGroup(): Promise<void> {
    const { limitMb, group } = this.#limits ?? { limitMb: 0, group: undefined }
    if (await group?.wasFull()) this.excess ??= excessOf(Math.max(this.peakMb, limitMb + 1), limitMb)
    await group?.remove()
  }

  /** The highest observed memory use in MB. */
  get peakMb(): number {
    return this.#watch?.peakMb ?? 0
  }

  /** Sends a signal to the process group. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const pid = await this.#group
    if (pid && !this.#gone) signalGroup(pid, signal)
  }

  /** Sends TERM, then KILL after `graceMs`; resolves when the whole tree has exited. */
  async stop({ graceMs }: { graceMs: number }): Promise<ProcessExit> {
    if (this.#gone) return this.exited
    await this.signal('SIGTERM')
    const timer = setTimeout(() => void this.signal('SIGKILL'), graceMs)
    // Kill a launcher that hangs too; its parent-death signal ends the command.
    const last = setTimeout(() => this.#child.kill('SIGKILL'), graceMs + 1_000)
    try {
      return await this.exited
    } finally {
      clearTimeout(timer)
      clearTimeout(last)
    }
  }

  /** Returns the process id of the command itself; undefined once it has exited. */
  async pid(): Promise<number | undefined> {
    const pid = await this.#group
    return this.#gone ? undefined : pid
  }
}

/**
 * Starts children that cannot outlive the node. A launcher kills the tree when the node dies; pid files let the next
 * start end any processes that a launcher missed.
 */
export class ProcessDriver {
  readonly #stateDir: string
  readonly #pidDir: string
  readonly #held = new Map<Confinement['network'], Promise<ConfinementMechanisms>>()
  readonly #python: () => Promise<string>
  readonly #running = new Set<ManagedProcess>()
  readonly #openGroups: () => Promise<ControlGroups | undefined>
  #groups: Promise<ControlGroups | undefined> | undefined

  /** `python` runs the launcher, and is resolved when the first child starts. */
  constructor({ stateDir, python, groups = () => ControlGroups.open() }: ProcessDriverOptions) {
    this.#stateDir = stateDir
    this.#openGroups = groups
    this.#pidDir = join(stateDir, 'pids')
    this.#python = python
  }

  get running(): readonly ManagedProcess[] {
    return [...this.#running]
  }

  /** Returns the control groups for sandboxes; undefined if this node may not create any. */
  groups(): Promise<ControlGroups | undefined> {
    return (this.#groups ??= this.#openGroups().catch(() => undefined))
  }

  /** Returns the measures that this kernel supports, probed once. */
  held(network: Confinement['network'] = 'none'): Promise<ConfinementMechanisms> {
    let held = this.#held.get(network)
    if (!held)
      this.#held.set(network, (held = this.#python().then((found) => probeConfinement(found, network))))
    return held
  }

  /** Creates a folder for a child's files and the socket it listens on. It is removed with the child. */
  async makeFolder(): Promise<string> {
    const ownFolder = join(this.#stateDir, 'own')
    await mkdir(ownFolder, { recursive: true, mode: 0o700 })
    const wanted = join(await realpath(ownFolder), randomUUID().slice(0, 8))
    const isShort = Buffer.byteLength(join(wanted, 'server.sock')) <= MAX_SOCKET
    const folder = isShort ? wanted : await mkdtemp(join(await realpath(tmpdir()), 'hearth-'))
    await mkdir(join(folder, 'tmp'), { recursive: true, mode: 0o700 })
    return folder
  }

  async start(spec: ProcessSpec): Promise<ManagedProcess> {
    const { confinement } = spec
    const [python, folder] = await Promise.all([
      this.#python(),
      spec.folder ?? this.makeFolder(),
      mkdir(this.#pidDir, { recursive: true }),
    ])
    const command = [spec.command, ...spec.args]
    const cwd = spec.cwd ?? folder
    const group = spec.sandbox && (await (await this.groups())?.create(spec.name, spec.sandbox))
    const order = spec.sandbox
      ? await sandboxOrder(spec.sandbox, { folder, groups: group?.folders ?? [] })
      : confinement &&
        orderOf(confinement, {
          command,
          folder,
          cwd,
          hidden: await realpath(this.#stateDir),
          // A child doesn't run unless all measures that the node reported at startup are in force.
          require: await this.held(confinement.network),
        })
    const child = spawn(python, ['-I', '-S', LAUNCHER, JSON.stringify(order ?? null), ...command], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
      cwd,
      env: { ...(spec.env ?? childEnv()), ...homeEnv(folder) },
    })
    const pidFile = join(this.#pidDir, `${encodeURIComponent(spec.name)}.json`)
    const pid = groupOf(child)
    const managed = new ManagedProcess(spec.name, child, pid, async () => {
      this.#running.delete(managed)
      await rm(pidFile, { force: true })
      await rm(folder, { recursive: true, force: true })
    })
    this.#running.add(managed)
    if (confinement) managed.limitMemory(confinement.memoryMb)
    if (spec.sandbox) managed.limitMemory(spec.sandbox.memoryMb, { isSandbox: true, group })
    await writePidFile(pidFile, child, await pid)
    return managed
  }

  /** Ends the processes that an earlier run of this node left behind. */
  async reap(): Promise<number> {
    const names = await readdir(this.#pidDir).catch(() => [])
    const reaped = await Promise.all(names.map((name) => reapOne(join(this.#pidDir, name))))
    await (await this.groups())?.reap()
    if (this.#running.size === 0) await rm(join(this.#stateDir, 'own'), { recursive: true, force: true })
    return reaped.filter(Boolean).length
  }

  /** Stops all processes in parallel: TERM, then KILL after `graceMs`. */
  async stopAll(options: { graceMs: number }): Promise<void> {
    await Promise.all(this.running.map((managed) => managed.stop(options)))
  }
}

async function writePidFile(path: string, child: ChildProcess, group: number | undefined): Promise<void> {
  if (!child.pid || !group) return
  const content: PidFile = {
    launcher: child.pid,
    launcher_start: identify(child.pid)?.started ?? '',
    group,
  }
  await writeFile(path, JSON.stringify(content))
  // The child may have exited while the file was being written.
  if (child.exitCode !== null || child.signalCode !== null) await rm(path, { force: true })
}

/** Returns the process id of the command, which is also its group id: the launcher's only line on the lifeline. */
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
    const identity = { pid: launcher, started: launcher_start }
    found = isAlive(identity)
    if (found) {
      signalGroup(group, 'SIGKILL')
      for (let i = 0; i < 20 && isAlive(identity); i++) await sleep(50)
      signalProcess(launcher, 'SIGKILL')
    }
  } catch {
    // A pid file that was truncated by a crash names no process.
  }
  await rm(path, { force: true })
  return found
}
