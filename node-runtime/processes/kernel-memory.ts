import { readFileSync } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { processFile } from '../../platform/processes/process-tree.ts'
import { signalProcess } from '../../platform/processes/signals.ts'
import { countDescriptors, type DescriptorCounts } from './open-descriptors.ts'

const MB = 1024 * 1024
/** Growth below this is that of a machine at work. */
const MIN_GROWTH_MB = 64
/** The kernel's record of one mapping (vm_area_struct and what belongs to it). */
const MAPPING_BYTES = 200
/** The link of a mapping to one process that it was forked from (anon_vma_chain). */
const CHAIN_BYTES = 64
/** The list of locks is only read this far, because each part of it that is read stops all locking on the machine. */
const LOCKS_READ_BYTES = MB
/** No program has so many locks at once. */
const MIN_LOCKS = 500
const NEWLINE = 10
/**
 * The kernel allows 4 % of the memory for the epoll watches of all processes of one user, about 250,000 for a gigabyte. On
 * a node without root's privileges that user is the node's own, and its processes end when they may not watch any more.
 */
const MAX_WATCHES = 50_000
/** Programs receive descriptors that they send to each other at once. */
const MAX_IN_FLIGHT = 16
/** A process that hands its descriptors to a child and ends, again and again, escapes a look, and perhaps some in a row. */
const MAX_MOVES = 3
/** In a round, the processes that started since the last one are stopped; a program that is no relay stands still after a few. */
const MAX_STOP_ROUNDS = 20
/** So many looks at which something waits while the memory stays are no coincidence; fewer where it has grown to `MAX_GROWTH` times as much. */
const MAX_PENDING = 10
const MIN_PENDING = 2
const MAX_GROWTH = 8
/** Records take up to three times what they are counted as, for example in the tables of mappings. */
const UNDERCOUNT = 3
/** A look at many mappings takes seconds, in which they may go and come. */
const EXPLAINS_MS = 10_000
/** The growth of the kernel's memory from which on descriptors in flight may be its cause: a quarter of those 4 %. */
const MAX_HIDDEN_MB = Math.max(MIN_GROWTH_MB, totalmem() / MB / 100)

const TOO_MANY_WATCHES = `it watched more than ${MAX_WATCHES.toLocaleString('en')} descriptors by epoll`

type List = () => Promise<readonly number[]>

interface KernelMemoryOptions {
  /** Returns the processes that the sandbox has now. */
  list: List
  maxHiddenMb?: number
  /** Returns the kernel's memory of the sandbox's control group, which is then counted instead of the machine's. */
  groupMb?: (() => Promise<number | undefined>) | undefined
}

/**
 * The kernel's own memory for the processes of one sandbox: records of mappings, which forks copy, and of file locks.
 * Linux limits neither and counts them only for control groups. So this counts by how much the kernel's memory of the
 * whole machine has grown since the sandbox began, at most what the records of the sandbox can explain.
 */
export class KernelMemory implements Disposable {
  static readonly #atWork = new Set<KernelMemory>()
  /** What the records of the sandbox explained of the machine's growth at the last looks. */
  #explained: { at: number; mb: number }[] = []
  readonly #list: List
  /** The machine's lowest value since the sandbox began in MB. */
  #leastMb: number
  /** The descriptors in flight at the last look. */
  #inFlight = 0
  /** True when the last look could not read one of the processes. */
  #wasHidden = false
  /** The looks in a row at which a descriptor or a connection waited after the memory had grown. */
  #pending = 0
  /** The looks in a row during which processes ended. */
  #moves = 0
  readonly #maxHiddenMb: number
  /** True where the kernel counts the memory for the sandbox's group. */
  #isCounted = false
  readonly #groupMb: (() => Promise<number | undefined>) | undefined

  /** Call this before the program of the sandbox starts, because memory that it takes before counts for no sandbox. */
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

  /** Returns the memory in MB; the first of `pids` made the namespaces of the sandbox. */
  async usedMb(pids: readonly number[]): Promise<number> {
    return this.#explain(pids, await this.#grownMb())
  }

  /** Returns how much of a growth the records of the sandbox explain, and notes it for the other sandboxes. */
  async #explain(pids: readonly number[], grownMb: number): Promise<number> {
    const mb = await this.#recordsMb(pids, grownMb)
    const at = performance.now()
    this.#explained = [...this.#explained.filter((one) => at - one.at < EXPLAINS_MS), { at, mb }]
    return mb
  }

  async #recordsMb(pids: readonly number[], grownMb: number): Promise<number> {
    if (grownMb < MIN_GROWTH_MB || pids[0] === undefined) return 0
    if ((await locksOf(pids[0], new Set(pids))) >= MIN_LOCKS) return this.#unexplainedMb(grownMb)
    // Each process may descend from all others.
    const bytes = MAPPING_BYTES + CHAIN_BYTES * pids.length
    let mb = 0
    for (const pid of pids) {
      mb += ((await linesOf(await processFile(pid, 'maps'))) * bytes) / MB
      if (mb >= grownMb) return grownMb
    }
    return mb
  }

  /**
   * Describes descriptors whose memory nothing counts: those watched by epoll, and those in flight, which may be epoll
   * instances. What is in flight within others, waits for a connection to be accepted, or goes from process to process,
   * shows by the growth alone.
   */
  async excess(pids: readonly number[]): Promise<string | undefined> {
    const { watches, inFlight, isHidden, isMoving } = await countDescriptors(pids, MAX_WATCHES)
    if (watches > MAX_WATCHES) return TOO_MANY_WATCHES
    // The sandbox hides one for a moment while it takes its user; a program without read permission hides
    // its own until it ends, perhaps in one process after another.
    const isStillHidden = isHidden && this.#wasHidden
    this.#wasHidden = isHidden
    this.#moves = isMoving ? this.#moves + 1 : 0
    if (isStillHidden) return 'one of its processes kept the node from reading what it holds'
    const hasStayed = Math.min(inFlight, this.#inFlight) > MAX_IN_FLIGHT
    this.#inFlight = inFlight
    if (hasStayed) return `more than ${MAX_IN_FLIGHT} descriptors that it sent were not received`
    const grownMb = this.#unexplainedMb(await this.#grownMb())
    if (grownMb < this.#maxHiddenMb || pids[0] === undefined) {
      this.#pending = 0
      return undefined
    }
    if (this.#moves >= MAX_MOVES) {
      const found = await countStopped(this.#list)
      if (!found)
        return `its processes replaced each other while the kernel's memory grew by ${Math.ceil(grownMb)} MB`
      if (found.watches > MAX_WATCHES) return TOO_MANY_WATCHES
      this.#moves = 0
    }
    // Connections to a busy server wait as well.
    this.#pending = inFlight > 0 || (await hasPendingConnection(pids[0])) ? this.#pending + 1 : 0
    const enough = grownMb < MAX_GROWTH * this.#maxHiddenMb ? MAX_PENDING : MIN_PENDING
    if (this.#pending < enough || !(await this.#isUnexplained())) return undefined
    return `it left descriptors or connections unreceived while the kernel's memory grew by ${Math.ceil(grownMb)} MB`
  }

  /** Returns by how much the kernel's memory has grown: that of the sandbox's group, or of the machine. */
  async #grownMb(): Promise<number> {
    const groupMb = await this.#groupMb?.()
    this.#isCounted = groupMb !== undefined
    // The sandbox's group is created for it, so all of its memory is growth.
    if (groupMb !== undefined) return groupMb
    const nowMb = unreclaimableMb()
    if (nowMb === undefined) return 0
    this.#leastMb = Math.min(this.#leastMb, nowMb)
    return nowMb - this.#leastMb
  }

  /** Looks at the other sandboxes before and after the memory of the machine: their records may come and go meanwhile. */
  async #isUnexplained(): Promise<boolean> {
    if (this.#isCounted) return true
    await this.#lookAtOthers(await this.#grownMb())
    const grownMb = await this.#grownMb()
    await this.#lookAtOthers(grownMb)
    return this.#unexplainedMb(grownMb) >= this.#maxHiddenMb
  }

  /** By the growth that this sandbox sees: others that began before a third one ended see less. */
  async #lookAtOthers(grownMb: number): Promise<void> {
    const others = [...KernelMemory.#atWork].filter((other) => other !== this)
    await Promise.all(others.map(async (other) => other.#explain(await other.#list(), grownMb)))
  }

  /** Leaves out of a growth what other sandboxes may be the cause of. */
  #unexplainedMb(grownMb: number): number {
    if (this.#isCounted) return grownMb
    let ofOthersMb = 0
    for (const other of KernelMemory.#atWork)
      if (other !== this) ofOthersMb += Math.max(0, ...other.#explained.map(({ mb }) => mb))
    return Math.max(0, grownMb - UNDERCOUNT * ofOthersMb)
  }
}

/** Stops processes until none has started in between, counts their descriptors, and continues them; undefined if they replace each other too fast. */
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

/** Returns the kernel's memory of the machine that it cannot reclaim; undefined where it cannot be read. */
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

/** Returns whether a Unix socket of a network namespace waits to be accepted; such a socket has no inode. */
async function hasPendingConnection(outer: number): Promise<boolean> {
  const text = await readFile(`/proc/${outer}/net/unix`, 'latin1').catch(() => '')
  return /^\w+: \w+ \w+ \w+ \w+ \w+ +0(?: |$)/m.test(text)
}

/** Counts the locks of these processes, and all on files of the sandbox's own, at the start of the machine's list. */
async function locksOf(outer: number, pids: ReadonlySet<number>): Promise<number> {
  const [start, device] = await Promise.all([
    startOf('/proc/locks', LOCKS_READ_BYTES).catch(() => ''),
    deviceOf(outer),
  ])
  const found = [...start.matchAll(/^\d+: (?:-> )?\w+ +\w+ +\w+ +(-?\d+) +([0-9a-f]+:[0-9a-f]+):/gm)]
  return found.filter(([, pid, on]) => pids.has(Number(pid)) || on === device).length
}

/** Returns the device of a sandbox's `/tmp` as `/proc/locks` writes it; undefined before the sandbox has its root. */
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
