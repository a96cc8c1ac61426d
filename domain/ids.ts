import { v7 } from 'uuid'

const BYTES = 16
const DIGITS = Buffer.from('0123456789abcdef')
/** The position of each byte's digits in the text. */
const PLACES = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]
/** Random bytes for many ids at once, because one call costs more than the rest of an id. */
const drawn = new Uint8Array(256 * BYTES)
/** The same bytes as numbers. */
const words = new DataView(drawn.buffer)
const id = new Uint8Array(BYTES)
const text = Buffer.alloc(36, '-')
let at = drawn.length
let lastMs = 0
let seq = 0

/**
 * Creates a UUIDv7. Ids sort by creation time (within one process, even in the same millisecond), so pages need only
 * the id as a cursor.
 */
export function newId(): string {
  if (at === drawn.length) {
    crypto.getRandomValues(drawn)
    at = 0
  }
  const random = drawn.subarray(at, (at += BYTES))
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    // Clearing the top bit leaves half of the range for increments.
    seq = words.getUint32(at - BYTES + 6) & 0x7fffffff
  } else {
    seq = (seq + 1) | 0
    if (seq === 0) lastMs += 1
  }
  v7({ random, msecs: lastMs, seq }, id)
  for (let i = 0; i < BYTES; i++) {
    // oxlint-disable-next-line typescript/no-non-null-assertion -- in range, and runs for every byte of an id
    const byte = id[i]!
    // oxlint-disable-next-line typescript/no-non-null-assertion -- in range, and runs for every byte of an id
    const offset = PLACES[i]!
    // oxlint-disable-next-line typescript/no-non-null-assertion -- in range, and runs for every byte of an id
    text[offset] = DIGITS[byte >> 4]!
    // oxlint-disable-next-line typescript/no-non-null-assertion -- in range, and runs for every byte of an id
    text[offset + 1] = DIGITS[byte & 15]!
  }
  // One decode yields a flat string; a concatenated one would have to be flattened by its reader.
  return text.toString('latin1')
}
