import { readFile, writeFile } from 'node:fs/promises'
import { GgufReader } from '../../../../domain/hub/gguf.ts'

const ALIGNMENT = 32

/**
 * Splits a GGUF as llama.cpp does: the first part contains all settings, and each part contains some of the tensors.
 * Returns the paths of the parts.
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
  /** The tensor's description up to its offset. */
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
  const reader = new GgufReader(bytes)
  reader.skip(8)
  const [tensorCount, settingCount] = [reader.u64(), reader.u64()]
  const settingsAt = reader.at
  for (let i = 0; i < settingCount; i++) {
    reader.string()
    reader.skipValue(reader.u32())
  }
  const settings = bytes.subarray(settingsAt, reader.at)
  const tensors: TensorInfo[] = []
  for (let i = 0; i < tensorCount; i++) {
    const start = reader.at
    reader.string()
    reader.skip(8 * reader.u32() + 4)
    const head = bytes.subarray(start, reader.at)
    tensors.push({ head, offset: reader.u64(), end: 0 })
  }
  const data = bytes.subarray(Math.ceil(reader.at / ALIGNMENT) * ALIGNMENT)
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
