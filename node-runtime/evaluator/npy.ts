import { type FileHandle, open } from 'node:fs/promises'
import { EvaluationError } from './evaluation-error.ts'

const MAGIC = Buffer.from('\x93NUMPY\x01\x00', 'latin1')
const ALIGNMENT = 64
const F32_BYTES = 4

/** Builds the header of a `.npy` file with rows of 32-bit floats. */
export function headOf(rows: number, columns: number): Buffer {
  const bare = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`
  const before = MAGIC.length + 2
  const length = Math.ceil((before + bare.length + 1) / ALIGNMENT) * ALIGNMENT - before
  const size = Buffer.alloc(2)
  size.writeUInt16LE(length)
  return Buffer.concat([MAGIC, size, Buffer.from(`${bare.padEnd(length - 1)}\n`)])
}

/** The rows of a `.npy` file of 32-bit floats, read on demand. */
export class RowFile implements AsyncDisposable {
  readonly rows: number
  readonly columns: number
  readonly #file: FileHandle
  readonly #start: number

  private constructor(file: FileHandle, start: number, [rows, columns]: [number, number]) {
    this.#file = file
    this.#start = start
    this.rows = rows
    this.columns = columns
  }

  static async open(path: string): Promise<RowFile> {
    const file = await open(path, 'r')
    const head = Buffer.alloc(512)
    await file.read(head, 0, head.length, 0)
    const start = MAGIC.length + 2 + head.readUInt16LE(MAGIC.length)
    const text = head.toString('latin1', MAGIC.length + 2, Math.min(start, head.length))
    const [, rows, columns] =
      /'descr': '<f4'.*'fortran_order': False.*'shape': \((\d+), (\d+)\)/.exec(text) ?? []
    if (rows === undefined || columns === undefined) {
      await file.close()
      throw new EvaluationError('vectors_unusable', 'a file of vectors must have rows of 32-bit floats')
    }
    return new RowFile(file, start, [Number(rows), Number(columns)])
  }

  async row(index: number): Promise<number[]> {
    const bytes = new Float32Array(this.columns)
    await this.#file.read(
      new Uint8Array(bytes.buffer),
      0,
      bytes.byteLength,
      this.#start + index * this.columns * F32_BYTES,
    )
    return [...bytes]
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#file.close()
  }
}
