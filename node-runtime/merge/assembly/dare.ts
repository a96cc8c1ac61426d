import { highHalf, LANES, lowHalf, widen } from './numbers'

/** Mixes a counter with two keys so that every bit of the result depends on every bit of all three. */
function mixed4(counter: v128, key: v128, salt: v128): v128 {
  let h = v128.xor(i32x4.mul(counter, i32x4.splat(0x9e3779b1)), key)
  h = i32x4.mul(v128.xor(h, i32x4.shr_u(h, 16)), i32x4.splat(0x7feb352d))
  h = i32x4.mul(v128.xor(h, i32x4.shr_u(h, 15)), i32x4.splat(0x846ca68b))
  h = i32x4.add(v128.xor(h, i32x4.shr_u(h, 16)), salt)
  h = i32x4.mul(v128.xor(h, i32x4.shr_u(h, 16)), i32x4.splat(0x7feb352d))
  return v128.xor(h, i32x4.shr_u(h, 15))
}

function mixed(counter: u32, key: u32, salt: u32): u32 {
  return i32x4.extract_lane(mixed4(i32x4.splat(counter), i32x4.splat(key), i32x4.splat(salt)), 0) as u32
}

/**
 * Adds the elements of x - base that dare retains, times `scale`, to the sums. An element is retained when the 32-bit
 * hash of its index in the tensor is below `limit`; `first` is the index of the first element here.
 */
export function dareAdd(
  base: usize,
  x: usize,
  count: usize,
  sums: usize,
  first: u32,
  key: u32,
  salt: u32,
  limit: u32,
  scale: f32,
): void {
  const vkey = i32x4.splat(key)
  const vsalt = i32x4.splat(salt)
  const vlimit = i32x4.splat(limit)
  const vscale = f32x4.splat(scale)
  const four = i32x4.splat(4)
  let counter = i32x4.add(i32x4.splat(first), i32x4(0, 1, 2, 3))
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const vb = v128.load(base + i * 2)
    const vx = v128.load(x + i * 2)
    const at = sums + i * 4
    const keepLow = i32x4.le_u(mixed4(counter, vkey, vsalt), vlimit)
    counter = i32x4.add(counter, four)
    const keepHigh = i32x4.le_u(mixed4(counter, vkey, vsalt), vlimit)
    counter = i32x4.add(counter, four)
    const low = f32x4.mul(f32x4.sub(lowHalf(vx), lowHalf(vb)), vscale)
    const high = f32x4.mul(f32x4.sub(highHalf(vx), highHalf(vb)), vscale)
    v128.store(at, f32x4.add(v128.load(at), v128.and(low, keepLow)))
    v128.store(at, f32x4.add(v128.load(at, 16), v128.and(high, keepHigh)), 16)
  }
  for (; i < count; i++) {
    if (mixed(first + (i as u32), key, salt) > limit) continue
    const delta = (widen(load<u16>(x + i * 2)) - widen(load<u16>(base + i * 2))) * scale
    store<f32>(sums + i * 4, load<f32>(sums + i * 4) + delta)
  }
}
