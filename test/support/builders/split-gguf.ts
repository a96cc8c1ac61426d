import { readFile, writeFile } from 'node:fs/promises'

const ALIGNMENT = 32
const STRING = 8
const ARRAY = 9
/** Bytes of a value by its type; strings and arrays have none. */
const SIZES: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
}

/**
 * Splits a GGUF as llama.cpp does: the first part has all settings, and each part some of the
 * tensors. Returns their paths.
 */
export async function splitGguf(
  path: string,
  { count, stem }: { count: number; stem: string },
): Promise<string[]> {
  const bytes = await readFile(path)
  const { settings, settingCount, tensors, data } = read(bytes)
  const perPart = Math.ceil(tensors.length / count)
  const paths: string[] = []
  for (let part = 0; part < count; part++) {
    const chosen = tensors.slice(part * perPart, (part + 1) * perPart)
    const split = [
      setting('split.no', 2, uint(part, 2)),
      setting('split.count', 2, uint(count, 2)),
      setting('split.tensors.count', 5, uint(tensors.length, 4)),
    ]
    const own = part === 0 ? [settings] : []
    const head = Buffer.concat([
      Buffer.from('GGUF'),
      uint(3, 4),
      uint(chosen.length, 8),
      uint((part === 0 ? settingCount : 0) + split.length, 8),
      ...own,
      ...split,
    ])
    let offset = 0
    const [heads, bodies]: [Buffer[], Buffer[]] = [[], []]
    for (const { head: described, offset: from, end } of chosen) {
      heads.push(described, uint(offset, 8))
      const body = padded(data.subarray(from, end))
      bodies.push(body)
      offset += body.length
    }
    const name = `${stem}-${number(part + 1)}-of-${number(count)}.gguf`
    await writeFile(name, Buffer.concat([padded(Buffer.concat([head, ...heads])), ...bodies]))
    paths.push(name)
  }
  return paths
}

interface TensorInfo {
  /** Its description up to its offset. */
  head: Buffer
  offset: number
  end: number
}

function read(bytes: Buffer): {
  settings: Buffer
  settingCount: number
  tensors: TensorInfo[]
  data: Buffer
} {
  let at = 8
  const u64 = () => Number(bytes.readBigUInt64LE((at += 8) - 8))
  const u32 = () => bytes.readUInt32LE((at += 4) - 4)
  // The operand is read before `at` is: reading moves it.
  const skipBytes = (bytes: number): void => {
    at += bytes
  }
  const skipString = () => skipBytes(u64())
  const skip = (type: number): void => {
    if (type === STRING) return skipString()
    if (type !== ARRAY) return skipBytes(SIZES[type] ?? 0)
    const [inner, length] = [u32(), u64()]
    for (let i = 0; i < length; i++) skip(inner)
  }
  const [tensorCount, settingCount] = [u64(), u64()]
  const settingsAt = at
  for (let i = 0; i < settingCount; i++) {
    skipString()
    skip(u32())
  }
  const settings = bytes.subarray(settingsAt, at)
  const tensors: TensorInfo[] = []
  for (let i = 0; i < tensorCount; i++) {
    const start = at
    skipString()
    skipBytes(8 * u32() + 4)
    const head = bytes.subarray(start, at)
    tensors.push({ head, offset: u64(), end: 0 })
  }
  const data = bytes.subarray(Math.ceil(at / ALIGNMENT) * ALIGNMENT)
  for (const [i, tensor] of tensors.entries()) tensor.end = tensors[i + 1]?.offset ?? data.length
  return { settings, settingCount, tensors, data }
}

const number = (part: number): string => String(part).padStart(5, '0')

function uint(value: number, bytes: 2 | 4 | 8): Buffer {
  const buffer = Buffer.alloc(bytes)
  if (bytes === 8) buffer.writeBigUInt64LE(BigInt(value))
  else buffer.writeUIntLE(value, 0, bytes)
  return buffer
}

const setting = (key: string, type: number, value: Buffer): Buffer =>
  Buffer.concat([uint(key.length, 8), Buffer.from(key), uint(type, 4), value])

const padded = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc(Math.ceil(bytes.length / ALIGNMENT) * ALIGNMENT - bytes.length)])
