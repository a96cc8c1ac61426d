import { LANES } from './numbers'

/** Scales every row of sums[rows, cols] to its norm in `magnitudes`, all in float32. A row of norm zero becomes NaN. */
export function setLengths(sums: usize, magnitudes: usize, rows: usize, cols: usize): void {
  for (let row: usize = 0; row < rows; row++) {
    const at = sums + row * cols * 4
    const factor = load<f32>(magnitudes + row * 4) / lengthOf(at, cols)
    const factors = f32x4.splat(factor)
    let col: usize = 0
    for (; col + 4 <= cols; col += 4) {
      v128.store(at + col * 4, f32x4.mul(v128.load(at + col * 4), factors))
    }
    for (; col < cols; col++) store<f32>(at + col * 4, load<f32>(at + col * 4) * factor)
  }
}

function lengthOf(at: usize, count: usize): f32 {
  let low = f32x4.splat(0)
  let high = f32x4.splat(0)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const a = v128.load(at + i * 4)
    const b = v128.load(at + i * 4, 16)
    low = f32x4.add(low, f32x4.mul(a, a))
    high = f32x4.add(high, f32x4.mul(b, b))
  }
  const both = f32x4.add(low, high)
  let sum =
    f32x4.extract_lane(both, 0) +
    f32x4.extract_lane(both, 1) +
    f32x4.extract_lane(both, 2) +
    f32x4.extract_lane(both, 3)
  for (; i < count; i++) sum += load<f32>(at + i * 4) * load<f32>(at + i * 4)
  return sqrt<f32>(sum)
}
