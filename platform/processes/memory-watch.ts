import { readFile } from 'node:fs/promises'

const LOOK_MS = 200
/** More than any honest program here starts; a run that forks without end is ended as one that takes all memory. */
const MOST_PROCESSES = 1_024

export interface MemoryWatchOptions {
  /** The processes that are counted together, as they are now. */
  pids: () => Promise<readonly number[]>
  limitMb: number
  /** Called once, with what was found. */
  onOver: (found: string) => void
}

/** Looks at the memory of processes that run strangers' work and says when it is more than they may have. */
export class MemoryWatch implements Disposable {
  readonly #options: MemoryWatchOptions
  readonly #timer: NodeJS.Timeout
  #isLooking = false
  /** The most that was seen, in MB. */
  peakMb = 0

  constructor(options: MemoryWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const { limitMb } = this.#options
      const pids = await this.#options.pids()
      const usedMb = await ownMb(pids)
      this.peakMb = Math.max(this.peakMb, usedMb)
      if (usedMb > limitMb) this.#over(`it held ${Math.ceil(usedMb)} MB of memory and may have ${limitMb} MB`)
      else if (pids.length > MOST_PROCESSES) this.#over(`it started more than ${MOST_PROCESSES} processes`)
    } finally {
      this.#isLooking = false
    }
  }

  #over(found: string): void {
    clearInterval(this.#timer)
    this.#options.onOver(found)
  }
}

/** Memory in MB that goes with these processes: mapped files are not counted, for the kernel takes those back by itself. */
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
