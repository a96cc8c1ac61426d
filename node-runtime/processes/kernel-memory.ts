import { readFileSync } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { processFile } from '../../platform/processes/process-tree.ts'
import { signalProcess } from '../../platform/processes/signals.ts'
import { countDescriptors, type DescriptorCounts } from './open-descriptors.ts'

const MB = 1024 * 1024
/** Growth below this is normal on a busy machine. */
const MIN_GROWTH_MB = 64
/** The size of the kernel's record of one mapping (vm_area_struct and related data). */
const MAPPING_BYTES = 200
/** The size of the link between a mapping and one process that it was forked from (anon_vma_chain). */
const CHAIN_BYTES = 64
/** The limit for reading the list of locks: each read of a part of it blocks all locking on the machine. */
const LOCKS_READ_BYTES = MB
/** A regular program never has this many locks at once. */
const MIN_LOCKS = 500
const NEWLINE = 10
/**
 * The kernel allows 4 % of the memory for the epoll watches of all of one user's processes, about 250,000 per gigabyte.
 * On a node without root privileges that is the node's own user, whose processes exit when they can't add watches.
 */
const MAX_WATCHES = 50_000
/** Regular programs receive descriptors as soon as they are sent, so few are in flight. */
const MAX_IN_FLIGHT = 16
/**
 * A chain of processes that each pass their descriptors to a child and exit can escape one check, or a few in a row.
 */
const MAX_MOVES = 3
/**
 * Each round stops the processes that started since the last one. Except for such a chain (`MAX_MOVES`), a program
 * stops within a few rounds.
 */
const MAX_STOP_ROUNDS = 20
/**
 * If this many checks in a row find something unreceived while the memory stays in use, it is no coincidence.
 * `MIN_PENDING` suffices once the growth exceeds `MAX_GROWTH` times `maxHiddenMb`.
 */
const MAX_PENDING = 10
const MIN_PENDING = 2
const MAX_GROWTH = 8
/** Records take up to three times the counted size, for example because of the tables of mappings. */
const UNDERCOUNT = 3
/** How long a check explains growth: reading many mappings takes seconds, during which they may come and go. */
const CHECK_GROWTH_TTL_MS = 10_000
/**
 * The growth of the kernel's memory beyond which descriptors in flight may be the cause: 1 % of the machine's memory, a
 * quarter of the limit for epoll watches.
 */
const MAX_HIDDEN_MB = Math.max(MIN_GROWTH_MB, totalmem() / MB / 100)

const TOO_MANY_WATCHES = `it watched more than ${MAX_WATCHES.toLocaleString('en')} descriptors with epoll`

type List = () => Promise<readonly number[]>

interface KernelMemoryOptions {
  /** Returns the current processes of the sandbox. */
  list: List
  maxHiddenMb?: number
  /** Returns the kernel's memory of the sandbox's control group, which is then counted instead of the machine's. */
  groupMb?: (() => Promise<number | undefined>) | undefined
}

/**
 * Measures the kernel's own memory for the processes of one sandbox: records of mappings, which forks copy, and of file
 * locks. Linux limits neither, and counts them only for control groups. So we measure the growth of the whole machine's
 * kernel memory since the sandbox started, capped at the amount that the sandbox's records can explain.
 */
export class KernelMemory implements Disposable {
  static readonly #atWork = new Set<KernelMemory>()
  /** The part of the machine's growth that the sandbox's records explained at each recent check. */
  #explained: { at: number; mb: number }[] = []
  readonly #list: List
  /** The machine's lowest kernel memory since the sandbox started, in MB. */
  #leastMb: number
  /** The descriptors in flight at the last check. */
  #inFlight = 0
  /** True if the last check could not read one of the processes. */
  #wasHidden = false
  /** The number of checks in a row with unreceived descriptors or connections after the memory had grown. */
  #pending = 0
  /** The number of checks in a row during which processes ended. */
  #moves = 0
  readonly #maxHiddenMb: number
  /** True if the kernel counts the memory for the sandbox's group. */
  #isCounted = false
  readonly #groupMb: (() => Promise<number | undefined>) | undefined

  /** Call this before the sandbox's program starts: memory used before that isn't attributed to any sandbox. */
  constructor({ list, maxHiddenMb = MAX_HIDDEN_MB, groupMb }: KernelMemoryOptions) {
    this.#list = list
    this.#maxHiddenMb = maxHiddenMb
    this.#groupMb = groupMb
    this.#leastMb = unreclaimableMb() ?? Infinity
    KernelMemory.#atWork.add(this)
  }

  [Symbol.dispose](): void {
    KernelMemory.#atWork.delete(this)
  }

  /** Returns the memory in MB. The first of `pids` must be the process that created the sandbox's namespaces. */
  async usedMb(pids: readonly number[]): Promise<number> {
    return this.#explain(pids, await this.#grownMb())
  }

  /** Returns the part of the growth that the sandbox's records explain, and records it for the other sandboxes. */
  async #explain(pids: readonly number[], grownMb: number): Promise<number> {
    const mb = await this.#recordsMb(pids, grownMb)
    const at = performance.now()
    this.#explained = [...this.#explained.filter((one) => at - one.at < CHECK_GROWTH_TTL_MS), { at, mb }]
    return mb
  }

  async #recordsMb(pids: readonly number[], grownMb: number): Promise<number> {
    if (grownMb < MIN_GROWTH_MB || pids[0] === undefined) return 0
    if ((await locksOf(pids[0], new Set(pids))) >= MIN_LOCKS) return this.#unexplainedMb(grownMb)
    // In the worst case each process descends from all others.
    const bytes = MAPPING_BYTES + CHAIN_BYTES * pids.length
    let mb = 0
    for (const pid of pids) {
      mb += ((await linesOf(await processFile(pid, 'maps'))) * bytes) / MB
      if (mb >= grownMb) return grownMb
    }
    return mb
  }

  /**
   * Describes an excess of descriptors whose memory nothing counts: those watched with epoll, and those in flight,
   * which may be epoll instances. Descriptors within others in flight, in unaccepted connections, or passed from
   * process to process only show up as growth.
   */
  async excess(pids: readonly number[]): Promise<string | undefined> {
    const { watches, inFlight, isHidden, isMoving } = await countDescriptors(pids, MAX_WATCHES)
    if (watches > MAX_WATCHES) return TOO_MANY_WATCHES
    // The sandbox hides a process for a moment while it changes its user. A program without read permission hides its
    // processes until they end, possibly one after another.
    const isStillHidden = isHidden && this.#wasHidden
    this.#wasHidden = isHidden
    this.#moves = isMoving ? this.#moves + 1 : 0
    if (isStillHidden) return 'one of its processes prevented the node from reading its descriptors'
    const hasStayed = Math.min(inFlight, this.#inFlight) > MAX_IN_FLIGHT
    this.#inFlight = inFlight
    if (hasStayed) return `it sent more than ${MAX_IN_FLIGHT} descriptors that were not received`
    const grownMb = this.#unexplainedMb(await this.#grownMb())
    if (grownMb < this.#maxHiddenMb || pids[0] === undefined) {
      this.#pending = 0
      return undefined
    }
    if (this.#moves >= MAX_MOVES) {
      const found = await countStopped(this.#list)
      if (!found)
        return `its processes kept replacing each other while the kernel's memory grew by ${Math.ceil(grownMb)} MB`
      if (found.watches > MAX_WATCHES) return TOO_MANY_WATCHES
      this.#moves = 0
    }
    // Connections to a busy server are pending too, so one check proves nothing.
    this.#pending = inFlight > 0 || (await hasPendingConnection(pids[0])) ? this.#pending + 1 : 0
    const enough = grownMb < MAX_GROWTH * this.#maxHiddenMb ? MAX_PENDING : MIN_PENDING
    if (this.#pending < enough || !(await this.#isUnexplained())) return undefined
    return `it left descriptors or connections unreceived while the kernel's memory grew by ${Math.ceil(grownMb)} MB`
  }

  /** Returns how much the kernel's memory has grown, for the sandbox's group or for the whole machine. */
  async #grownMb(): Promise<number> {
    const groupMb = await this.#groupMb?.()
    this.#isCounted = groupMb !== undefined
    // The group was created for the sandbox, so all of its memory is growth.
    if (groupMb !== undefined) return groupMb
    const nowMb = unreclaimableMb()
    if (nowMb === undefined) return 0
    this.#leastMb = Math.min(this.#leastMb, nowMb)
    return nowMb - this.#leastMb
  }

  /** Checks the other sandboxes before and after measuring the machine, because their records may come and go. */
  async #isUnexplained(): Promise<boolean> {
    if (this.#isCounted) return true
    await this.#lookAtOthers(await this.#grownMb())
    const grownMb = await this.#grownMb()
    await this.#lookAtOthers(grownMb)
    return this.#unexplainedMb(grownMb) >= this.#maxHiddenMb
  }

  /**
   * Updates the other sandboxes with the growth that this one sees. Those that started before a third sandbox ended see
   * less growth.
   */
  async #lookAtOthers(grownMb: number): Promise<void> {
    const others = [...KernelMemory.#atWork].filter((other) => other !== this)
    await Promise.all(others.map(async (other) => other.#explain(await other.#list(), grownMb)))
  }

  /** Subtracts the part of the growth that other sandboxes may have caused. */
  #unexplainedMb(grownMb: number): number {
    if (this.#isCounted) return grownMb
    let ofOthersMb = 0
    for (const other of KernelMemory.#atWork)
      if (other !== this) ofOthersMb += Math.max(0, ...other.#explained.map(({ mb }) => mb))
    return Math.max(0, grownMb - UNDERCOUNT * ofOthersMb)
  }
}

/**
 * Stops processes until no new ones start, counts their descriptors, and resumes them; undefined if they replace each
 * other too fast.
 */
async function countStopped(list: List): Promise<DescriptorCounts | undefined> {
  const stopped = new Set<number>()
  try {
    for (let round = 0; round < MAX_STOP_ROUNDS; round++) {
      const pids = await list()
      const others = pids.filter((pid) => !stopped.has(pid))
      if (others.length === 0) return await countDescriptors(pids, MAX_WATCHES)
      for (const pid of others) if (signalProcess(pid, 'SIGSTOP')) stopped.add(pid)
    }
    return undefined
  } finally {
    for (const pid of stopped) signalProcess(pid, 'SIGCONT')
  }
}

/** Returns the machine's unreclaimable kernel memory; undefined if it can't be read. */
function unreclaimableMb(): number | undefined {
  try {
    const [, kb] = /^SUnreclaim:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? []
    return kb === undefined ? undefined : Number(kb) / 1024
  } catch {
    return undefined
  }
}

async function linesOf(path: string): Promise<number> {
  const bytes = await readFile(path).catch(() => Buffer.alloc(0))
  let lines = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) lines++
  return lines
}

/** Returns whether a network namespace has an unaccepted Unix socket connection, which has no inode. */
async function hasPendingConnection(outer: number): Promise<boolean> {
  const text = await readFile(`/proc/${outer}/net/unix`, 'latin1').catch(() => '')
  return /^\w+: \w+ \w+ \w+ \w+ \w+ +0(?: |$)/m.test(text)
}

/**
 * Counts the locks of these processes and all locks on the sandbox's files, reading only the start of the machine's
 * list.
 */
async function locksOf(outer: number, pids: ReadonlySet<number>): Promise<number> {
  const [start, device] = await Promise.all([
    startOf('/proc/locks', LOCKS_READ_BYTES).catch(() => ''),
    deviceOf(outer),
  ])
  const found = [...start.matchAll(/^\d+: (?:-> )?\w+ +\w+ +\w+ +(-?\d+) +([0-9a-f]+:[0-9a-f]+):/gm)]
  return found.filter(([, pid, on]) => pids.has(Number(pid)) || on === device).length
}

/**
 * Returns the device of a sandbox's `/tmp` in the format of `/proc/locks`; undefined before the sandbox has its root.
 */
async function deviceOf(outer: number): Promise<string | undefined> {
  try {
    const [own, its] = await Promise.all([stat('/tmp'), stat(`/proc/${outer}/root/tmp`)])
    return own.dev === its.dev ? undefined : deviceName(its.dev)
  } catch {
    return undefined
  }
}

async function startOf(path: string, bytes: number): Promise<string> {
  await using file = await open(path)
  const buffer = Buffer.alloc(bytes)
  let read = 0
  for (;;) {
    const { bytesRead } = await file.read(buffer, read, bytes - read, null)
    read += bytesRead
    if (bytesRead === 0 || read === bytes) return buffer.toString('latin1', 0, read)
  }
}

/** Returns `major:minor` in hexadecimal digits, at least two each. */
function deviceName(device: number): string {
  const major = (device >> 8) & 0xfff
  const minor = (device & 0xff) | ((device >> 12) & 0xfff00)
  return [major, minor].map((part) => part.toString(16).padStart(2, '0')).join(':')
}
