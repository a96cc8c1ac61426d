import { PAGE_BYTES } from './output-files.ts'
import type { Factors, Task } from './tasks.ts'
import type { Bench } from './workbench.ts'

const F32_BYTES = 4
const BF16_BYTES = 2

/**
 * Adds the products of LoRA factors to whole rows of a tensor and scales the rows to their DoRA norms; returns
 * whether the result is finite.
 */
export function foldAdapters(
  bench: Bench,
  { base, rows, cols, factors, magnitude, out, first, count }: Extract<Task, { kind: 'adapter' }>,
): boolean {
  const { kernels, arena, inputs, outputs, chunkBytes } = bench
  const rights = factors.map((one) => rightFactor(bench, one, { rows, cols }))
  // Bytes per element: as read, as a sum, as written.
  const perRow = cols * (BF16_BYTES + F32_BYTES + F32_BYTES)
  const step = Math.max(1, Math.floor(chunkBytes / perRow))
  const firstRow = first / cols
  const lastRow = firstRow + count / cols
  const lefts = factors.map(({ rank }) => arena.take(step * rank * F32_BYTES))
  const lengths = arena.take(magnitude ? step * F32_BYTES : 0)
  const room = inputs.room(base, step * cols)
  const sums = arena.take(step * cols * F32_BYTES)
  const result = arena.take(step * cols * BF16_BYTES + PAGE_BYTES)
  let isBad = 0
  for (let row = firstRow; row < lastRow; row += step) {
    const height = Math.min(step, lastRow - row)
    const size = height * cols
    inputs.read(base, { first: row * cols, count: size }, room)
    kernels.widenTo(room, sums, size)
    factors.forEach((one, i) => {
      const left = leftFactor(bench, one, { row, height, rows })
      new Float32Array(kernels.memory.buffer, lefts[i], left.length).set(left)
      kernels.multiplyAdd(lefts[i] ?? 0, rights[i] ?? 0, sums, height, cols, one.rank)
    })
    if (magnitude) {
      const values = inputs.readWide(magnitude, { first: row, count: height })
      new Float32Array(kernels.memory.buffer, lengths, height).set(values)
      kernels.setLengths(sums, lengths, height, cols)
    }
    const position = out.offset + row * cols * BF16_BYTES
    const to = result + (position % PAGE_BYTES)
    isBad |= kernels.narrowTo(sums, to, size)
    outputs.write(out.path, position, { at: to, bytes: size * BF16_BYTES })
  }
  return isBad === 0
}

/** Returns the whole right factor as rank x columns, in the memory of the kernels. */
function rightFactor(
  { kernels, arena, inputs }: Bench,
  { right, isTransposed, rank }: Factors,
  { cols }: { rows: number; cols: number },
): number {
  const values = inputs.readWide(right, { first: 0, count: rank * cols })
  const at = arena.take(values.byteLength)
  const lying = isTransposed ? transposed(values, { rows: cols, cols: rank }) : values
  new Float32Array(kernels.memory.buffer, at, lying.length).set(lying)
  return at
}

/** Returns some rows of the left factor, times its scale. */
function leftFactor(
  { inputs }: Bench,
  { left, isTransposed, rank, scale }: Factors,
  { row, height, rows }: { row: number; height: number; rows: number },
): Float32Array {
  if (!isTransposed) {
    return inputs.readWide(left, { first: row * rank, count: height * rank }).map((value) => value * scale)
  }
  const values = new Float32Array(height * rank)
  for (let k = 0; k < rank; k++) {
    const column = inputs.readWide(left, { first: k * rows + row, count: height })
    column.forEach((value, i) => (values[i * rank + k] = value * scale))
  }
  return values
}

function transposed(values: Float32Array, { rows, cols }: { rows: number; cols: number }): Float32Array {
  const turned = new Float32Array(values.length)
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) turned[col * rows + row] = values[row * cols + col] ?? 0
  }
  return turned
}
