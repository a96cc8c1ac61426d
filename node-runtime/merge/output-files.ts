import { closeSync, constants, fdatasyncSync, openSync, writeSync } from 'node:fs'
import type { Arena } from './kernels.ts'

/** The alignment of writes that bypass the page cache, in the file and in memory. */
export const PAGE_BYTES = 4_096
/** Without direct writes, a flush after this many bytes lets the disk work while the next chunks are computed. */
const FLUSH_BYTES = 32 * 1024 * 1024

interface OpenOutput {
  buffered: number
  /** The descriptor for writes that bypass the page cache; undefined when the file system does not support them. */
  direct: number | undefined
  unflushed: number
}

/**
 * The output files of a worker. Whole pages bypass the page cache; the partial pages at both ends
 * of a tensor go through it.
 */
export class OutputFiles implements Disposable {
  readonly #arena: Arena
  readonly #open = new Map<string, OpenOutput>()

  constructor(arena: Arena) {
    this.#arena = arena
  }

  /** Writes `bytes` from address `at`; `at` and `position` must have the same offset within a page. */
  write(path: string, position: number, { at, bytes }: { at: number; bytes: number }): void {
    const file = this.#file(path)
    const end = position + bytes
    const from = Math.min(end, Math.ceil(position / PAGE_BYTES) * PAGE_BYTES)
    const to = Math.max(from, Math.floor(end / PAGE_BYTES) * PAGE_BYTES)
    this.#through(file, position, { at, bytes: from - position })
    if (!this.#past(file, from, { at: at + from - position, bytes: to - from })) {
      this.#through(file, from, { at: at + from - position, bytes: to - from })
    }
    this.#through(file, to, { at: at + to - position, bytes: end - to })
  }

  [Symbol.dispose](): void {
    for (const { buffered, direct } of this.#open.values()) {
      closeSync(buffered)
      if (direct !== undefined) closeSync(direct)
    }
  }

  #file(path: string): OpenOutput {
    const openFile = this.#open.get(path)
    if (openFile) return openFile
    const opened = { buffered: openSync(path, 'r+'), direct: openDirect(path), unflushed: 0 }
    this.#open.set(path, opened)
    return opened
  }

  #past(file: OpenOutput, position: number, { at, bytes }: { at: number; bytes: number }): boolean {
    if (file.direct === undefined) return false
    try {
      writeAll(file.direct, this.#arena.view(at, bytes), position)
      return true
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== 'EINVAL') throw err
      closeSync(file.direct)
      file.direct = undefined
      return false
    }
  }

  #through(file: OpenOutput, position: number, { at, bytes }: { at: number; bytes: number }): void {
    if (bytes === 0) return
    writeAll(file.buffered, this.#arena.view(at, bytes), position)
    file.unflushed += bytes
    if (file.unflushed < FLUSH_BYTES) return
    fdatasyncSync(file.buffered)
    file.unflushed = 0
  }
}

function openDirect(path: string): number | undefined {
  // Node defines the flag only on systems that have it.
  const flag = constants.O_DIRECT as number | undefined
  if (flag === undefined) return undefined
  try {
    return openSync(path, constants.O_WRONLY | flag)
  } catch {
    return undefined
  }
}

function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length;) {
    done += writeSync(fd, bytes, done, bytes.length - done, position + done)
  }
}
