import { LANES } from './numbers'

/** sums[rows, cols] += left[rows, rank] · right[rank, cols], all in float32 and row-major; `left` is already scaled. */
export function multiplyAdd(
  left: usize,
  right: usize,
  sums: usize,
  rows: usize,
  cols: usize,
  rank: usize,
): void {
  const pitch = cols * 4
  let row: usize = 0
  for (; row + 4 <= rows; row += 4) fourRows(left + row * rank * 4, right, sums + row * pitch, cols, rank)
  for (; row < rows; row++) oneRow(left + row * rank * 4, right, sums + row * pitch, cols, rank)
}

/** Each vector of `right` that is loaded serves four rows. */
function fourRows(left: usize, right: usize, sums: usize, cols: usize, rank: usize): void {
  const pitch = cols * 4
  const step = rank * 4
  let col: usize = 0
  for (; col + LANES <= cols; col += LANES) {
    const at = sums + col * 4
    let a0 = v128.load(at)
    let a1 = v128.load(at, 16)
    let b0 = v128.load(at + pitch)
    let b1 = v128.load(at + pitch, 16)
    let c0 = v128.load(at + 2 * pitch)
    let c1 = v128.load(at + 2 * pitch, 16)
    let d0 = v128.load(at + 3 * pitch)
    let d1 = v128.load(at + 3 * pitch, 16)
    let piece = right + col * 4
    let factor = left
    for (let k: usize = 0; k < rank; k++) {
      const r0 = v128.load(piece)
      const r1 = v128.load(piece, 16)
      const fa = v128.load32_splat(factor)
      const fb = v128.load32_splat(factor + step)
      const fc = v128.load32_splat(factor + 2 * step)
      const fd = v128.load32_splat(factor + 3 * step)
      a0 = f32x4.add(a0, f32x4.mul(fa, r0))
      a1 = f32x4.add(a1, f32x4.mul(fa, r1))
      b0 = f32x4.add(b0, f32x4.mul(fb, r0))
      b1 = f32x4.add(b1, f32x4.mul(fb, r1))
      c0 = f32x4.add(c0, f32x4.mul(fc, r0))
      c1 = f32x4.add(c1, f32x4.mul(fc, r1))
      d0 = f32x4.add(d0, f32x4.mul(fd, r0))
      d1 = f32x4.add(d1, f32x4.mul(fd, r1))
      piece += pitch
      factor += 4
    }
    v128.store(at, a0)
    v128.store(at, a1, 16)
    v128.store(at + pitch, b0)
    v128.store(at + pitch, b1, 16)
    v128.store(at + 2 * pitch, c0)
    v128.store(at + 2 * pitch, c1, 16)
    v128.store(at + 3 * pitch, d0)
    v128.store(at + 3 * pitch, d1, 16)
  }
  if (col == cols) return
  for (let row: usize = 0; row < 4; row++) {
    restOfRow(left + row * step, right, sums + row * pitch, col, cols, rank)
  }
}

function oneRow(left: usize, right: usize, sums: usize, cols: usize, rank: usize): void {
  let col: usize = 0
  for (; col + 4 <= cols; col += 4) {
    let sum = v128.load(sums + col * 4)
    for (let k: usize = 0; k < rank; k++) {
      const factor = v128.load32_splat(left + k * 4)
      sum = f32x4.add(sum, f32x4.mul(factor, v128.load(right + (k * cols + col) * 4)))
    }
    v128.store(sums + col * 4, sum)
  }
  restOfRow(left, right, sums, col, cols, rank)
}

function restOfRow(left: usize, right: usize, sums: usize, from: usize, cols: usize, rank: usize): void {
  for (let col = from; col < cols; col++) {
    let sum = load<f32>(sums + col * 4)
    for (let k: usize = 0; k < rank; k++) {
      sum += load<f32>(left + k * 4) * load<f32>(right + (k * cols + col) * 4)
    }
    store<f32>(sums + col * 4, sum)
  }
}
