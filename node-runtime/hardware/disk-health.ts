import { setTimeout as sleep } from 'node:timers/promises'
import { type DiskSpace, readDiskSpace } from '../../platform/disk-space.ts'
import type { Logger } from '../../platform/log.ts'
import type { DiskFault } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'

const MB = 1024 * 1024
/** With less room than this, a run could not even store its logs and its dataset. */
export const MIN_FREE_BYTES = 64 * MB
/** A disk that was full counts as usable again once this much is free, so that the report doesn't flap. */
const MIN_FREE_AGAIN_BYTES = 2 * MIN_FREE_BYTES
const CHECK_INTERVAL_MS = 5_000
/** How long a job may hold its slot while it waits for room, before it is offered to other nodes again. */
const ADMISSION_TIMEOUT_MS = 20_000
const ADMISSION_INTERVAL_MS = 1_000
/** A job that filled the disk is retried after this time even without more room: other programs may have filled it. */
const RETRY_DELAY_MS = 10 * 60_000
const MAX_FILLERS = 1_000

export interface DiskHealthOptions {
  /** The folders to which the node writes; they may be on several disks. Missing ones are left out. */
  folders: readonly string[]
  log: Logger
  /** Called when the fault appears or disappears. */
  onChange?: () => void
  /** The longest wait of `admit`. */
  admissionMs?: number
  readRoom?: (folder: string) => Promise<DiskSpace>
}

/** The space that a job needs, as shown by its last attempt here. */
interface Filler {
  minFreeBytes: number
  retryAt: number
}

/**
 * Tracks whether this node's disks have room for the files of jobs. A node with a full disk reports it and starts no
 * jobs: every attempt would fail and count against a run that another node could execute.
 */
export class DiskHealth implements Disposable {
  readonly #options: DiskHealthOptions
  readonly #fillers = new Map<string, Filler>()
  #fault: DiskFault | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: DiskHealthOptions) {
    this.#options = options
  }

  /** The fault that operators should see; undefined while there is room. */
  get fault(): DiskFault | undefined {
    return this.#fault
  }

  /** Checks the disks from now on. */
  watch(): void {
    this.#timer = setInterval(() => void this.check(), CHECK_INTERVAL_MS)
    this.#timer.unref()
    void this.check()
  }

  /** Reads the free bytes of the fullest disk. */
  async check(): Promise<number> {
    const { folders, readRoom = readDiskSpace } = this.#options
    const rooms = await Promise.all(folders.map((folder) => readRoom(folder).catch(() => undefined)))
    const freeBytes = Math.min(...rooms.flatMap((room) => room?.freeBytes ?? []))
    const isFull = freeBytes < (this.#fault ? MIN_FREE_AGAIN_BYTES : MIN_FREE_BYTES)
    this.#set(isFull ? freeBytes : undefined)
    return freeBytes
  }

  /**
   * Returns true as soon as a job may start here, or false if that takes longer than the job should wait for this node.
   * A job that has already filled the disk once needs more room than it had then.
   */
  async admit(jobId: string, signal: AbortSignal): Promise<boolean> {
    const { admissionMs = ADMISSION_TIMEOUT_MS } = this.#options
    for (const end = performance.now() + admissionMs; ;) {
      const freeBytes = await this.check()
      if (!this.#fault && this.#hasRoom(jobId, freeBytes)) return true
      if (performance.now() >= end) return false
      await sleep(Math.min(ADMISSION_INTERVAL_MS, admissionMs), undefined, { signal })
    }
  }

  /**
   * Records that an attempt at a job filled the disk. Its files are gone by now, so the space that is free now is what
   * the job had: little if other programs filled the disk, and much if the job needs more than this node has.
   */
  async filled(jobId: string): Promise<void> {
    const freeBytes = await this.check()
    const [oldest] = this.#fillers.size >= MAX_FILLERS ? this.#fillers.keys() : []
    if (oldest !== undefined) this.#fillers.delete(oldest)
    this.#fillers.delete(jobId)
    this.#fillers.set(jobId, {
      minFreeBytes: freeBytes + MIN_FREE_BYTES,
      retryAt: performance.now() + RETRY_DELAY_MS,
    })
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #hasRoom(jobId: string, freeBytes: number): boolean {
    const filler = this.#fillers.get(jobId)
    return !filler || freeBytes >= filler.minFreeBytes || performance.now() >= filler.retryAt
  }

  #set(freeBytes: number | undefined): void {
    const { log, onChange } = this.#options
    const before = this.#fault
    const free_mb = Math.floor((freeBytes ?? 0) / MB)
    this.#fault =
      freeBytes === undefined ? undefined : { since: before?.since ?? new Date().toISOString(), free_mb }
    if (Boolean(before) === Boolean(this.#fault)) return
    if (this.#fault) emit(log, 'disk.full', { free_mb })
    else emit(log, 'disk.usable')
    onChange?.()
  }
}
