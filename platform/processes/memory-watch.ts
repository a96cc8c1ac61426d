import { readFile } from 'node:fs/promises'

const SAMPLE_MS = 200
/**
 * No legitimate program here starts more processes; a run that forks without end is ended like
 * one that uses all memory.
 */
const MOST_PROCESSES = 1_024

export interface MemoryWatchOptions {
  /** Returns the current processes that are counted together. */
  pids: () => Promise<readonly number[]>
  limitMb: number
  /** Called once, with a description of the excess. */
  onOver: (found: string) => void
}

/** Watches the memory of processes that run untrusted work, and reports when it exceeds their limit. */
export class MemoryWatch implements Disposable {
  readonly #options: MemoryWatchOptions
  readonly #timer: NodeJS.Timeout
  #isSampling = false
  /** The highest value so far in MB. */
  peakMb = 0

  constructor(options: MemoryWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#sample(), SAMPLE_MS)
    this.#timer.unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #sample(): Promise<void> {
    if (this.#isSampling) return
    this.#isSampling = true
    try {
      const { limitMb } = this.#options
      const pids = await this.#options.pids()
      const usedMb = await ownMb(pids)
      this.peakMb = Math.max(this.peakMb, usedMb)
      if (usedMb > limitMb) this.#over(`it held ${Math.ceil(usedMb)} MB of memory and may have ${limitMb} MB`)
      else if (pids.length > MOST_PROCESSES) this.#over(`it started more than ${MOST_PROCESSES} processes`)
    } finally {
      this.#isSampling = false
    }
  }

  #over(found: string): void {
    clearInterval(this.#timer)
    this.#options.onOver(found)
  }
}

/**
 * Returns the memory in MB that is freed with these processes. Mapped files do not count, because the kernel
 * reclaims those by itself.
 */
export async function ownMb(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(pids.map(ownKbOf))
  return each.reduce((sum, kb) => sum + kb, 0) / 1024
}

async function ownKbOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  let sum = 0
  for (const [, kb] of status.matchAll(/^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB$/gm)) sum += Number(kb)
  return sum
}
