import { difference, highHalf, LANES, lowHalf, narrow, notFinite, packed, put, widen } from './numbers'

/** Counts the magnitudes of x - base, of which bfloat16 has 32,768, in two consecutive tables of u32. */
export function countMagnitudes(base: usize, x: usize, count: usize, table: usize): void {
  const second = table + 0x20000
  const magnitude = i16x8.splat(0x7fff)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const d = v128.and(difference(base + i * 2, x + i * 2), magnitude)
    bump(table, i16x8.extract_lane_u(d, 0))
    bump(second, i16x8.extract_lane_u(d, 1))
    bump(table, i16x8.extract_lane_u(d, 2))
    bump(second, i16x8.extract_lane_u(d, 3))
    bump(table, i16x8.extract_lane_u(d, 4))
    bump(second, i16x8.extract_lane_u(d, 5))
    bump(table, i16x8.extract_lane_u(d, 6))
    bump(second, i16x8.extract_lane_u(d, 7))
  }
  for (; i < count; i++) {
    const d = narrow(widen(load<u16>(x + i * 2)) - widen(load<u16>(base + i * 2)))
    bump(table, (d & 0x7fff) as u16)
  }
}

function bump(table: usize, slot: u16): void {
  const at = table + ((slot as usize) << 2)
  store<u32>(at, load<u32>(at) + 1)
}

/**
 * Adds the elements of one model that ties retains, weighted, to four sums per element: positive contributions and
 * their weights, negative contributions and theirs. It retains magnitudes above `threshold` and the first `quota` that
 * equal it, and returns the rest of the quota. Elements must therefore come in index order.
 */
export function tiesAdd(
  base: usize,
  x: usize,
  count: usize,
  sums: usize,
  threshold: u32,
  quota: u32,
  weight: f32,
): u32 {
  const magnitude = i16x8.splat(0x7fff)
  const limit = i16x8.splat(threshold as i16)
  const none = i16x8.splat(0)
  const vw = f32x4.splat(weight)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const d = difference(base + i * 2, x + i * 2)
    const size = v128.and(d, magnitude)
    let keep = i16x8.gt_s(size, limit)
    const equal = i16x8.eq(size, limit)
    if (quota != 0 && v128.any_true(equal)) {
      const mask = i16x8.bitmask(equal) as u32
      const found = popcnt(mask)
      if (found <= quota) {
        keep = v128.or(keep, equal)
        quota -= found
      } else {
        keep = v128.or(keep, firstOf(mask, quota))
        quota = 0
      }
    }
    const kept = v128.bitselect(d, none, keep)
    tiesSum(sums + i * 16, lowHalf(kept), vw)
    tiesSum(sums + i * 16 + 64, highHalf(kept), vw)
  }
  if (i == count) return quota
  return tiesTail(base, x, i, count, sums, threshold, quota, weight)
}

/** Returns a lane mask of the lowest `quota` bits that are set in `mask`. */
function firstOf(mask: u32, quota: u32): v128 {
  let lanes = i16x8.splat(0)
  let left = quota
  for (let lane: u32 = 0; lane < 8 && left > 0; lane++) {
    if ((mask & (1 << lane)) == 0) continue
    left--
    // The instruction's lane numbers must be constants, so a comparison builds the mask of one lane.
    const numbers = i16x8(0, 1, 2, 3, 4, 5, 6, 7)
    lanes = v128.or(lanes, i16x8.eq(numbers, i16x8.splat(lane as i16)))
  }
  return lanes
}

/** Adds to the sums of four elements: 4 x positive, 4 x their weights, 4 x negative, 4 x their weights. */
function tiesSum(at: usize, delta: v128, weight: v128): void {
  const zero = f32x4.splat(0)
  const value = f32x4.mul(delta, weight)
  const positive = f32x4.gt(value, zero)
  const negative = f32x4.lt(value, zero)
  v128.store(at, f32x4.add(v128.load(at), v128.and(value, positive)))
  v128.store(at, f32x4.add(v128.load(at, 16), v128.and(weight, positive)), 16)
  v128.store(at, f32x4.add(v128.load(at, 32), v128.and(value, negative)), 32)
  v128.store(at, f32x4.add(v128.load(at, 48), v128.and(weight, negative)), 48)
}

function tiesTail(
  base: usize,
  x: usize,
  first: usize,
  count: usize,
  sums: usize,
  threshold: u32,
  quota: u32,
  weight: f32,
): u32 {
  for (let i = first; i < count; i++) {
    const d = narrow(widen(load<u16>(x + i * 2)) - widen(load<u16>(base + i * 2)))
    const size = d & 0x7fff
    if (size < threshold) continue
    if (size == threshold) {
      if (quota == 0) continue
      quota--
    }
    const value = widen(d) * weight
    const at = sums + (i & ~3) * 16 + (i & 3) * 4
    if (value > 0) {
      store<f32>(at, load<f32>(at) + value)
      store<f32>(at, load<f32>(at, 16) + weight, 16)
    } else if (value < 0) {
      store<f32>(at, load<f32>(at, 32) + value, 32)
      store<f32>(at, load<f32>(at, 48) + weight, 48)
    }
  }
  return quota
}

/** Stores out = base + the mean of the contributions of the elected sign, and clears the sums for the next block. */
export function tiesStore(base: usize, sums: usize, out: usize, count: usize): bool {
  let bad = i32x4.splat(0)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const vb = v128.load(base + i * 2)
    const low = f32x4.add(lowHalf(vb), elected(sums + i * 16))
    const high = f32x4.add(highHalf(vb), elected(sums + i * 16 + 64))
    const result = packed(low, high)
    bad = v128.or(bad, notFinite(result))
    v128.store(out + i * 2, result)
  }
  let isBad = v128.any_true(bad)
  for (; i < count; i++) {
    const at = sums + (i & ~3) * 16 + (i & 3) * 4
    const up = load<f32>(at)
    const down = load<f32>(at, 32)
    const isUp = up + down >= 0
    const weight = isUp ? load<f32>(at, 16) : load<f32>(at, 48)
    const sum = isUp ? up : down
    const mean = weight > 0 ? sum / weight : 0
    isBad = put(out + i * 2, widen(load<u16>(base + i * 2)) + mean) || isBad
  }
  memory.fill(sums, 0, ((count + 3) & ~3) * 16)
  return isBad
}

function elected(at: usize): v128 {
  const zero = f32x4.splat(0)
  const up = v128.load(at)
  const down = v128.load(at, 32)
  const isUp = f32x4.ge(f32x4.add(up, down), zero)
  const weight = v128.bitselect(v128.load(at, 16), v128.load(at, 48), isUp)
  const sum = v128.bitselect(up, down, isUp)
  return v128.and(f32x4.div(sum, weight), f32x4.gt(weight, zero))
}
