import { crc32, deflateSync } from 'node:zlib'

/** Returns a PNG of this size with the gray values of `greyAt`; without it, only a header with almost no data. */
export function pngOf(width: number, height: number, greyAt?: (x: number, y: number) => number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  // Eight bits per channel, three color channels.
  head.set([8, 2], 8)
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(greyAt ? rows(width, height, greyAt) : Buffer.alloc(4))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Returns the pixels of each row, after a filter byte of 0 (unfiltered). */
function rows(width: number, height: number, greyAt: (x: number, y: number) => number): Buffer {
  const bytes = Buffer.alloc(height * (1 + 3 * width))
  for (let y = 0; y < height; y++) {
    const start = y * (1 + 3 * width) + 1
    for (let x = 0; x < width; x++) bytes.fill(greyAt(x, y), start + 3 * x, start + 3 * x + 3)
  }
  return bytes
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data])
  const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  size.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([size, body, sum])
}
