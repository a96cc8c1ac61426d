import { crc32, deflateRawSync } from 'node:zlib'

export interface ZipEntry {
  name: string
  bytes: Uint8Array
  /** Unix file mode, for links. */
  mode?: number
  /** The size that the archive claims, if it differs from the real one. */
  claimedSize?: number
}

const FILE = 0o100644
const UTF8_NAME = 0x0800
const DEFLATE = 8

/** Builds a zip archive of these entries without validation; real archivers refuse to write hostile ones. */
export function zip(entries: readonly ZipEntry[]): Buffer {
  const locals: Buffer[] = []
  const centrals: Buffer[] = []
  let offset = 0
  for (const { name, bytes, mode = FILE, claimedSize = bytes.length } of entries) {
    const packed = deflateRawSync(bytes)
    const fields = { name: Buffer.from(name), crc: crc32(bytes), packed: packed.length, size: claimedSize }
    const local = Buffer.concat([common(0x04034b50, fields), fields.name, packed])
    const central = Buffer.alloc(14)
    central.writeUInt32LE((mode << 16) >>> 0, 6)
    central.writeUInt32LE(offset, 10)
    const start = common(0x02014b50, fields)
    centrals.push(
      Buffer.concat([start.subarray(0, 4), Buffer.from([20, 3]), start.subarray(4), central, fields.name]),
    )
    locals.push(local)
    offset += local.length
  }
  const directory = Buffer.concat(centrals)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...locals, directory, end])
}

/** Writes the part that local and central headers share, from the signature to the length of the extra field. */
function common(
  signature: number,
  { name, crc, packed, size }: { name: Buffer; crc: number; packed: number; size: number },
): Buffer {
  const header = Buffer.alloc(30)
  header.writeUInt32LE(signature, 0)
  header.writeUInt16LE(20, 4)
  header.writeUInt16LE(UTF8_NAME, 6)
  header.writeUInt16LE(DEFLATE, 8)
  header.writeUInt32LE(crc, 14)
  header.writeUInt32LE(packed, 18)
  header.writeUInt32LE(size, 22)
  header.writeUInt16LE(name.length, 26)
  return header
}
