import { folderOf, readStatus } from './process-tree.ts'

const DEFAULT_INTERVAL_MS = 200
/**
 * No legitimate program here starts more processes than this. A run that keeps forking is ended like one that uses too
 * much memory.
 */
const MAX_PROCESSES = 1_024

export interface MemoryWatchOptions {
  /** Returns the current processes whose memory is counted together. */
  pids: () => Promise<readonly number[]>
  /** Returns their memory in MB; `ownMb` by default. */
  usedMb?: (pids: readonly number[]) => Promise<number>
  limitMb: number
  /** Describes an exceeded limit other than memory; undefined when there is none. */
  excess?: (pids: readonly number[]) => Promise<string | undefined>
  intervalMs?: number
  /** Called once, with a description of the excess. */
  onOver: (found: string) => void
}

/** Watches the memory of processes that run untrusted work, and reports when it exceeds their limit. */
export class MemoryWatch implements Disposable {
  readonly #options: MemoryWatchOptions
  readonly #timer: NodeJS.Timeout
  #isSampling = false
  /** The peak so far in MB. */
  peakMb = 0

  constructor(options: MemoryWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#sample(), options.intervalMs ?? DEFAULT_INTERVAL_MS)
    this.#timer.unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #sample(): Promise<void> {
    if (this.#isSampling) return
    this.#isSampling = true
    try {
      const { limitMb, usedMb: measure = ownMb } = this.#options
      const pids = await this.#options.pids()
      const usedMb = await measure(pids)
      this.peakMb = Math.max(this.peakMb, usedMb)
      const found =
        usedMb > limitMb
          ? excessOf(usedMb, limitMb)
          : pids.length > MAX_PROCESSES
            ? `it started more than ${MAX_PROCESSES} processes`
            : await this.#options.excess?.(pids)
      if (found !== undefined) this.#over(found)
    } finally {
      this.#isSampling = false
    }
  }

  #over(found: string): void {
    clearInterval(this.#timer)
    this.#options.onOver(found)
  }
}

/** Describes memory use above the limit. */
export const excessOf = (usedMb: number, limitMb: number): string =>
  `it used ${Math.ceil(usedMb)} MB of memory; its limit is ${limitMb} MB`

/**
 * Returns the memory in MB that ending these processes frees, page tables included. Mapped files don't count, because
 * the kernel reclaims those anyway.
 */
export const ownMb = (pids: readonly number[]): Promise<number> =>
  sumMb(pids, /^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB$/gm)

/** Returns the memory in MB of these processes, without memory-backed files that they map. */
export const privateMb = (pids: readonly number[]): Promise<number> =>
  sumMb(pids, /^(?:RssAnon|VmSwap|VmPTE):\s+(\d+) kB$/gm)

async function sumMb(pids: readonly number[], fields: RegExp): Promise<number> {
  const each = await Promise.all(pids.map((pid) => kbOf(pid, fields)))
  return each.reduce((sum, kb) => sum + kb, 0) / 1024
}

async function kbOf(pid: number, fields: RegExp): Promise<number> {
  const ownStatus = await readStatus(`/proc/${pid}`)
  const folder = await folderOf(pid, ownStatus)
  const status = folder === `/proc/${pid}` ? ownStatus : await readStatus(folder)
  let sum = 0
  for (const [, kb] of status.matchAll(fields)) sum += Number(kb)
  return sum
}
