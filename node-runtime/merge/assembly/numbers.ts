// This is AssemblyScript, not TypeScript: `npm run kernels` compiles this folder to ../kernels.wasm. Pointers are byte
// offsets into the module's memory; counts are numbers of elements. Input and output elements are bfloat16, sums are
// float32.

/** The number of elements that one instruction handles. */
export const LANES: usize = 8
const EXPONENT: i16 = 0x7f80

export function lowHalf(v: v128): v128 {
  return i8x16.shuffle(i32x4.splat(0), v, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
}

export function highHalf(v: v128): v128 {
  return i8x16.shuffle(i32x4.splat(0), v, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)
}

/** Rounds to bfloat16 in the low half of each lane: to nearest, ties to even; NaN stays NaN. */
function rounded(v: v128): v128 {
  const odd = v128.and(i32x4.shr_u(v, 16), i32x4.splat(1))
  const bits = i32x4.shr_u(i32x4.add(v, i32x4.add(odd, i32x4.splat(0x7fff))), 16)
  return v128.bitselect(i32x4.splat(0x7fc0), bits, f32x4.ne(v, v))
}

export function packed(low: v128, high: v128): v128 {
  return i16x8.narrow_i32x4_u(rounded(low), rounded(high))
}

/** Returns a mask of the lanes that hold an infinity or a NaN. */
export function notFinite(v: v128): v128 {
  const mask = i16x8.splat(EXPONENT)
  return i16x8.eq(v128.and(v, mask), mask)
}

export function widen(bits: u32): f32 {
  return reinterpret<f32>(bits << 16)
}

export function narrow(value: f32): u32 {
  if (value != value) return 0x7fc0
  const bits = reinterpret<u32>(value)
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16
}

export function put(at: usize, value: f32): bool {
  const bits = narrow(value)
  store<u16>(at, bits as u16)
  return (bits & 0x7f80) == 0x7f80
}

/** Returns x - base for eight elements, as bfloat16. */
export function difference(base: usize, x: usize): v128 {
  const vb = v128.load(base)
  const vx = v128.load(x)
  return packed(f32x4.sub(lowHalf(vx), lowHalf(vb)), f32x4.sub(highHalf(vx), highHalf(vb)))
}

/** Converts float32 to bfloat16; `to` may equal `from`. */
export function fromF32(from: usize, to: usize, count: usize): void {
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const low = v128.load(from + i * 4)
    const high = v128.load(from + i * 4, 16)
    v128.store(to + i * 2, packed(low, high))
  }
  for (; i < count; i++) store<u16>(to + i * 2, narrow(load<f32>(from + i * 4)) as u16)
}

/** Converts float16 to bfloat16 in place. */
export function fromF16(at: usize, count: usize): void {
  for (let i: usize = 0; i < count; i++) {
    const half = load<u16>(at + i * 2) as u32
    const sign = (half & 0x8000) << 16
    const body = half & 0x7fff
    const value =
      body >= 0x7c00
        ? reinterpret<f32>(0x7f800000 | ((body & 0x3ff) << 13))
        : // Multiplying by 2^112 moves the exponent's bias, for subnormal numbers too.
          reinterpret<f32>(body << 13) * reinterpret<f32>(0x77800000)
    store<u16>(at + i * 2, narrow(reinterpret<f32>(reinterpret<u32>(value) | sign)) as u16)
  }
}

/** Sets the sums to the elements as float32. */
export function widenTo(from: usize, sums: usize, count: usize): void {
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const v = v128.load(from + i * 2)
    v128.store(sums + i * 4, lowHalf(v))
    v128.store(sums + i * 4, highHalf(v), 16)
  }
  for (; i < count; i++) store<f32>(sums + i * 4, widen(load<u16>(from + i * 2)))
}

/** Stores the sums as bfloat16. */
export function narrowTo(sums: usize, out: usize, count: usize): bool {
  let bad = i32x4.splat(0)
  let i: usize = 0
  for (; i + LANES <= count; i += LANES) {
    const result = packed(v128.load(sums + i * 4), v128.load(sums + i * 4, 16))
    bad = v128.or(bad, notFinite(result))
    v128.store(out + i * 2, result)
  }
  let isBad = v128.any_true(bad)
  for (; i < count; i++) isBad = put(out + i * 2, load<f32>(sums + i * 4)) || isBad
  return isBad
}
