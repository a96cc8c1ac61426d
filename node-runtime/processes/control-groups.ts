import { constants } from 'node:fs'
import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identify, isAlive } from '../../platform/processes/process-identity.ts'
import { signalProcess } from '../../platform/processes/signals.ts'

const MB = 1024 * 1024
/** The number of the launcher's own processes in a group. */
const OWN_PROCESSES = 4
/** The launcher's own memory in a group, plus the kernel's memory for the namespaces. */
const OWN_MB = 32
const PERIOD_US = 100_000
/** Nice 5, as for runs without groups: 335 out of 1,024 shares, and a weight of 33 out of 100. */
const SHARES = 335
const WEIGHT = 33
const REMOVE_TRIES = 40
const REMOVE_DELAY_MS = 25
const CONTROLLERS = ['memory', 'cpu', 'pids'] as const
type Controller = (typeof CONTROLLERS)[number]

export interface GroupLimits {
  memoryMb: number
  cpus: number
  processes: number
}

/** The control groups of one run. */
export interface RunGroup {
  /** The folders of the groups that a process joins before it executes the command. */
  readonly folders: readonly string[]
  /** Returns whether the kernel has killed a process of the run because the group's memory was full. */
  wasFull(): Promise<boolean>
  /** Returns the kernel's own memory for the run in MB; undefined if the kernel does not count it. */
  kernelMb(): Promise<number | undefined>
  /** Kills the remaining processes of the run and removes the groups. */
  remove(): Promise<void>
}

/** Where groups are created: in one hierarchy (version 2), or in one per controller (version 1). */
export interface GroupFolders {
  version: 1 | 2
  folders: ReadonlyMap<Controller, string>
}

/** Limits runs with the kernel's control groups, if this process may create any. */
export class ControlGroups {
  readonly #places: GroupFolders

  constructor(places: GroupFolders) {
    this.#places = places
  }

  /**
   * Tries to create a group in each hierarchy that `proc` lists; undefined if that fails for memory, the most important
   * one.
   */
  static async open({ proc = '/proc/self' } = {}): Promise<ControlGroups | undefined> {
    if (process.platform !== 'linux') return undefined
    const places = (await placesV2(proc)) ?? (await placesV1(proc))
    return places && new ControlGroups(places)
  }

  get version(): 1 | 2 {
    return this.#places.version
  }

  has(controller: Controller): boolean {
    return this.#places.folders.has(controller)
  }

  async create(name: string, limits: GroupLimits): Promise<RunGroup> {
    const groupName = prefix() + name
    const folders = new Map(
      [...this.#places.folders].map(([controller, base]) => [controller, join(base, groupName)]),
    )
    const distinct = [...new Set(folders.values())]
    const settings = this.version === 2 ? settingsV2(limits) : settingsV1(limits)
    try {
      for (const folder of distinct) await mkdir(folder)
      for (const [controller, file, value, isOptional] of settings) {
        const folder = folders.get(controller)
        if (folder === undefined) continue
        const written = writeFile(join(folder, file), value)
        await (isOptional ? written.catch(() => {}) : written)
      }
    } catch (err) {
      await Promise.all(distinct.map(removeGroup))
      throw err
    }
    const memory = folders.get('memory') ?? ''
    const events = join(memory, this.version === 2 ? 'memory.events' : 'memory.oom_control')
    return {
      folders: distinct,
      wasFull: async () => /^oom_kill [1-9]/m.test(await readFile(events, 'utf8').catch(() => '')),
      kernelMb: () => (this.version === 2 ? kernelMbV2(memory) : kernelMbV1(memory)),
      remove: async () => void (await Promise.all(distinct.map(removeGroup))),
    }
  }

  /**
   * Removes the groups of nodes that are no longer running, and kills processes in them that the launcher has missed.
   */
  async reap(): Promise<number> {
    const bases = [...new Set(this.#places.folders.values())]
    const removed = await Promise.all(bases.map(reapBelow))
    return removed.reduce((sum, count) => sum + count, 0)
  }
}

async function kernelMbV2(folder: string): Promise<number | undefined> {
  const stat = await readFile(join(folder, 'memory.stat'), 'utf8').catch(() => '')
  const [, bytes] = /^slab_unreclaimable (\d+)/m.exec(stat) ?? []
  return bytes === undefined ? undefined : Number(bytes) / MB
}

async function kernelMbV1(folder: string): Promise<number | undefined> {
  const bytes = await readFile(join(folder, 'memory.kmem.usage_in_bytes'), 'utf8').catch(() => '')
  // A kernel that does not count it reports 0, although the processes of a run always use some.
  return Number(bytes) > 0 ? Number(bytes) / MB : undefined
}

type Setting = readonly [controller: Controller, file: string, value: string, isOptional?: boolean]

const settingsV2 = ({ memoryMb, cpus, processes }: GroupLimits): Setting[] => [
  ['memory', 'memory.max', String((memoryMb + OWN_MB) * MB)],
  // This file does not exist on kernels without swap.
  ['memory', 'memory.swap.max', '0', true],
  ['memory', 'memory.oom.group', '1', true],
  ['pids', 'pids.max', String(processes + OWN_PROCESSES)],
  ['cpu', 'cpu.max', `${cpus * PERIOD_US} ${PERIOD_US}`],
  ['cpu', 'cpu.weight', String(WEIGHT)],
]

const settingsV1 = ({ memoryMb, cpus, processes }: GroupLimits): Setting[] => [
  ['memory', 'memory.limit_in_bytes', String((memoryMb + OWN_MB) * MB)],
  ['memory', 'memory.memsw.limit_in_bytes', String((memoryMb + OWN_MB) * MB), true],
  ['pids', 'pids.max', String(processes + OWN_PROCESSES)],
  ['cpu', 'cpu.cfs_period_us', String(PERIOD_US)],
  ['cpu', 'cpu.cfs_quota_us', String(cpus * PERIOD_US)],
  ['cpu', 'cpu.shares', String(SHARES)],
]

const NAME = /^hearth-(\d+)-(\d+)-/
const prefix = (): string => `hearth-${process.pid}-${identify(process.pid)?.started ?? '0'}-`

async function reapBelow(base: string): Promise<number> {
  const names = await readdir(base).catch(() => [])
  let removed = 0
  for (const name of names) {
    const [, pid, started = ''] = NAME.exec(name) ?? []
    if (pid === undefined || isAlive({ pid: Number(pid), started })) continue
    await removeGroup(join(base, name))
    removed += 1
  }
  return removed
}

/** Removes a group, which the kernel allows once all processes in it are gone. */
async function removeGroup(folder: string): Promise<void> {
  for (let tries = 0; tries < REMOVE_TRIES; tries++) {
    try {
      return await rmdir(folder)
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code === 'ENOENT') return
      const pids = await readFile(join(folder, 'cgroup.procs'), 'utf8').catch(() => '')
      for (const pid of pids.split('\n').filter(Boolean)) signalProcess(Number(pid), 'SIGKILL')
      await sleep(REMOVE_DELAY_MS)
    }
  }
}

interface Mount {
  root: string
  folder: string
  kind: string
  options: string[]
}

async function mounts(proc: string): Promise<Mount[]> {
  const text = await readFile(join(proc, 'mountinfo'), 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '', folder = ''] = before.split(' ')
    const [kind = '', , options = ''] = after.split(' ')
    return kind.startsWith('cgroup') ? [{ root, folder, kind, options: options.split(',') }] : []
  })
}

/** Returns the path of this process's group in a hierarchy. */
async function ownPath(proc: string, controller: string): Promise<string | undefined> {
  const text = await readFile(join(proc, 'cgroup'), 'utf8').catch(() => '')
  const line = text.split('\n').find((one) => (one.split(':')[1] ?? '').split(',').includes(controller))
  return line?.split(':').slice(2).join(':')
}

/** Returns the folder in which the group of a path is mounted. */
function folderOf({ root, folder }: Mount, path: string): string {
  if (root === '/') return join(folder, path)
  return path.startsWith(root) ? join(folder, path.slice(root.length)) : folder
}

async function placesV1(proc: string): Promise<GroupFolders | undefined> {
  const all = await mounts(proc)
  const folders = new Map<Controller, string>()
  for (const controller of CONTROLLERS) {
    const mount = all.find(({ kind, options }) => kind === 'cgroup' && options.includes(controller))
    const path = await ownPath(proc, controller)
    if (!mount || path === undefined) continue
    const base = folderOf(mount, path)
    if (await canMakeGroups(base, controller === 'memory' ? 'memory.limit_in_bytes' : 'cgroup.procs'))
      folders.set(controller, base)
  }
  return folders.has('memory') ? { version: 1, folders } : undefined
}

async function placesV2(proc: string): Promise<GroupFolders | undefined> {
  const mount = (await mounts(proc)).find(({ kind }) => kind === 'cgroup2')
  const path = await ownPath(proc, '')
  if (!mount || path === undefined) return undefined
  const ownFolder = folderOf(mount, path)
  for (const base of basesV2(ownFolder, path)) {
    if (!(await hasControllers(base))) continue
    if (!(await canMakeGroups(base, 'memory.max'))) continue
    const given = await readWords(join(base, 'cgroup.subtree_control'))
    const folders = CONTROLLERS.filter((one) => given.includes(one)).map((one) => [one, base] as const)
    return { version: 2, folders: new Map(folders) }
  }
  return undefined
}

/**
 * Returns the groups that this node may be allowed to divide: its own if a container or a user manager has delegated
 * it, or the unit around it (systemd's `DelegateSubgroup`). Root could write to any group, but systemd's groups aren't
 * ours.
 */
function basesV2(own: string, path: string): string[] {
  const isRoot = process.getuid?.() === 0
  const around = dirname(own)
  return [...(path === '/' || !isRoot ? [own] : []), ...(/\.(?:service|scope)$/.test(around) ? [around] : [])]
}

const readWords = async (path: string): Promise<string[]> =>
  (await readFile(path, 'utf8').catch(() => '')).trim().split(/\s+/)

/**
 * Enables the controllers for the groups below this one. The kernel requires that this group itself has no processes.
 */
async function hasControllers(base: string): Promise<boolean> {
  const control = join(base, 'cgroup.subtree_control')
  if ((await readWords(control)).includes('memory')) return true
  const available = await readWords(join(base, 'cgroup.controllers'))
  if (!available.includes('memory')) return false
  try {
    await access(control, constants.W_OK)
    const pids = (await readFile(join(base, 'cgroup.procs'), 'utf8')).split('\n').filter(Boolean)
    if (pids.length > 0) {
      const main = join(base, 'hearth-main')
      await mkdir(main, { recursive: true })
      for (const pid of pids) await writeFile(join(main, 'cgroup.procs'), pid).catch(ignoreGone)
    }
    const wanted = CONTROLLERS.filter((one) => available.includes(one)).map((one) => `+${one}`)
    await writeFile(control, wanted.join(' '))
    return true
  } catch {
    return false
  }
}

function ignoreGone(err: NodeJS.ErrnoException): void {
  if (err.code !== 'ESRCH') throw err
}

async function canMakeGroups(base: string, file: string): Promise<boolean> {
  const folder = join(base, `${prefix()}probe`)
  try {
    await mkdir(folder)
    await access(join(folder, file), constants.W_OK)
    return true
  } catch {
    return false
  } finally {
    await rmdir(folder).catch(() => {})
  }
}
