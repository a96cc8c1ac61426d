import { closeSync, openSync, readSync } from 'node:fs'
import type { Arena, Kernels } from './kernels.ts'
import { MergeError } from './merge-error.ts'
import type { Input, Slice } from './tasks.ts'

const BF16_BYTES = 2
const F32_BYTES = 4

/** The open input files of a worker. Elements are read directly into the memory of the kernels. */
export class InputFiles implements Disposable {
  readonly #arena: Arena
  readonly #kernels: Kernels
  readonly #open = new Map<string, number>()

  constructor(arena: Arena, kernels: Kernels) {
    this.#arena = arena
    this.#kernels = kernels
  }

  /** Allocates memory for `count` elements of this input, in its own type. */
  room({ dtype }: Input, count: number): number {
    return this.#arena.take(count * bytesOf(dtype))
  }

  /** Reads elements to `at` and converts them to bfloat16. */
  read(input: Input, { first, count }: Slice, at: number): void {
    const unit = bytesOf(input.dtype)
    this.#fill(input.path, input.offset + first * unit, { at, bytes: count * unit })
    if (input.dtype === 'F32') this.#kernels.fromF32(at, at, count)
    else if (input.dtype === 'F16') this.#kernels.fromF16(at, count)
  }

  /** Reads elements as float32, because adapter factors keep their precision. */
  readWide(input: Input, { first, count }: Slice): Float32Array {
    const mark = this.#arena.mark()
    const from = this.#arena.take(count * F32_BYTES)
    const unit = bytesOf(input.dtype)
    this.#fill(input.path, input.offset + first * unit, { at: from, bytes: count * unit })
    const values = this.#widened(input.dtype, from, count)
    this.#arena.release(mark)
    return values
  }

  #widened(dtype: string, from: number, count: number): Float32Array {
    const { memory } = this.#kernels
    if (dtype === 'F16') return new Float32Array(new Float16Array(memory.buffer, from, count))
    let at = from
    if (dtype !== 'F32') {
      at = this.#arena.take(count * F32_BYTES)
      this.#kernels.widenTo(from, at, count)
    }
    return new Float32Array(memory.buffer, at, count).slice()
  }

  [Symbol.dispose](): void {
    for (const fd of this.#open.values()) closeSync(fd)
  }

  #fill(path: string, position: number, { at, bytes }: { at: number; bytes: number }): void {
    let fd = this.#open.get(path)
    if (fd === undefined) this.#open.set(path, (fd = openSync(path, 'r')))
    const target = this.#arena.view(at, bytes)
    for (let done = 0; done < bytes;) {
      const count = readSync(fd, target, done, bytes - done, position + done)
      if (count === 0) throw new MergeError('file_invalid', 'A source ended before its last tensor did.')
      done += count
    }
  }
}

const bytesOf = (dtype: string): number => (dtype === 'F32' ? F32_BYTES : BF16_BYTES)
