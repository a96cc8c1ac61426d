import { highHalf, LANES, lowHalf, notFinite, packed, put, widen } from './numbers'

/** Writes the three sums a·a, b·b and a·b of one block as float64. The order of additions depends on `count` alone. */
export function dots(a: usize, b: usize, count: usize, out: usize): void {
  let aa = f32x4.splat(0)
  let bb = f32x4.splat(0)
  let ab = f32x4.splat(0)
  let aaHigh = f32x4.splat(0)
  let bbHigh = f32x4.splat(0)
  let abHigh = f32x4.splat(0)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const va = v128.load(a + i * 2)
    const vb = v128.load(b + i * 2)
    const a0 = lowHalf(va)
    const b0 = lowHalf(vb)
    const a1 = highHalf(va)
    const b1 = highHalf(vb)
    aa = f32x4.add(aa, f32x4.mul(a0, a0))
    bb = f32x4.add(bb, f32x4.mul(b0, b0))
    ab = f32x4.add(ab, f32x4.mul(a0, b0))
    aaHigh = f32x4.add(aaHigh, f32x4.mul(a1, a1))
    bbHigh = f32x4.add(bbHigh, f32x4.mul(b1, b1))
    abHigh = f32x4.add(abHigh, f32x4.mul(a1, b1))
  }
  let sumAa = total(aa) + total(aaHigh)
  let sumBb = total(bb) + total(bbHigh)
  let sumAb = total(ab) + total(abHigh)
  for (; i < count; i++) {
    const va = widen(load<u16>(a + i * 2)) as f64
    const vb = widen(load<u16>(b + i * 2)) as f64
    sumAa += va * va
    sumBb += vb * vb
    sumAb += va * vb
  }
  store<f64>(out, sumAa)
  store<f64>(out, sumBb, 8)
  store<f64>(out, sumAb, 16)
}

function total(v: v128): f64 {
  const first = (f32x4.extract_lane(v, 0) as f64) + (f32x4.extract_lane(v, 1) as f64)
  return first + ((f32x4.extract_lane(v, 2) as f64) + (f32x4.extract_lane(v, 3) as f64))
}

/** Computes out = p·a + q·b; returns whether any element of it is not finite. */
export function combine(a: usize, b: usize, out: usize, count: usize, p: f32, q: f32): bool {
  const vp = f32x4.splat(p)
  const vq = f32x4.splat(q)
  let bad = i32x4.splat(0)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const va = v128.load(a + i * 2)
    const vb = v128.load(b + i * 2)
    const low = f32x4.add(f32x4.mul(lowHalf(va), vp), f32x4.mul(lowHalf(vb), vq))
    const high = f32x4.add(f32x4.mul(highHalf(va), vp), f32x4.mul(highHalf(vb), vq))
    const result = packed(low, high)
    bad = v128.or(bad, notFinite(result))
    v128.store(out + i * 2, result)
  }
  let isBad = v128.any_true(bad)
  for (; i < count; i++) {
    const value = widen(load<u16>(a + i * 2)) * p + widen(load<u16>(b + i * 2)) * q
    isBad = put(out + i * 2, value) || isBad
  }
  return isBad
}
