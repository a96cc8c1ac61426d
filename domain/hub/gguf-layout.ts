import { GgufReader } from './gguf.ts'

/** The layout of a GGUF file according to its header. */
export interface GgufLayout {
  readonly version: number
  /** The minimum size of the file: the end of its last tensor. */
  readonly endBytes: number
}

/** The format versions that llama.cpp reads. */
export const GGUF_VERSIONS: readonly number[] = [2, 3]

const U32 = 4
const DEFAULT_ALIGNMENT = 32

/** Values and bytes per block, by tensor type; sizes of other types are unknown. */
const BLOCKS: Readonly<Record<number, readonly [values: number, bytes: number]>> = {
  0: [1, 4],
  1: [1, 2],
  2: [32, 18],
  3: [32, 20],
  6: [32, 22],
  7: [32, 24],
  8: [32, 34],
  10: [256, 84],
  11: [256, 110],
  12: [256, 144],
  13: [256, 176],
  14: [256, 210],
  20: [32, 18],
  23: [256, 136],
  30: [1, 2],
  39: [32, 17],
}

/**
 * Reads the layout of a GGUF from its first bytes. Returns `cut` when they end within the header, undefined for other
 * files.
 */
export function readGgufLayout(bytes: Uint8Array): GgufLayout | 'cut' | undefined {
  const reader = new GgufReader(bytes)
  try {
    if (reader.text(4) !== 'GGUF') return undefined
    const version = reader.u32()
    if (!GGUF_VERSIONS.includes(version)) return { version, endBytes: 0 }
    const tensors = reader.u64()
    let alignment = DEFAULT_ALIGNMENT
    for (let remaining = reader.u64(); remaining > 0; remaining--) {
      const [key, type] = [reader.string(), reader.u32()]
      if (key === 'general.alignment' && type === U32) alignment = reader.u32()
      else reader.skipValue(type)
    }
    let dataBytes = 0
    for (let remaining = tensors; remaining > 0; remaining--)
      dataBytes = Math.max(dataBytes, endOfTensor(reader))
    return { version, endBytes: Math.ceil(reader.at / alignment) * alignment + dataBytes }
  } catch (err) {
    if (err instanceof RangeError) return 'cut'
    throw err
  }
}

function endOfTensor(reader: GgufReader): number {
  reader.string()
  let values = 1
  for (let dimensions = reader.u32(); dimensions > 0; dimensions--) values *= reader.u64()
  const [block, bytes] = BLOCKS[reader.u32()] ?? [1, 0]
  return reader.u64() + Math.ceil(values / block) * bytes
}
