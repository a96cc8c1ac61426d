import { v7 } from 'uuid'

const BYTES = 16
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
/** Random bytes are drawn for many ids at once: each draw costs more than the rest of an id. */
const drawn = new Uint8Array(256 * BYTES)
const id = new Uint8Array(BYTES)
let at = drawn.length
let lastMs = 0
let seq = 0

/** A new UUIDv7: ids sort by creation, within a process even those of one millisecond, so pages run by id alone. */
export function newId(): string {
  if (at === drawn.length) {
    crypto.getRandomValues(drawn)
    at = 0
  }
  const random = drawn.subarray(at, (at += BYTES))
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    // Half of the range is left to count on in.
    seq = ((random[6]! & 0x7f) << 24) | (random[7]! << 16) | (random[8]! << 8) | random[9]!
  } else {
    seq = (seq + 1) | 0
    if (seq === 0) lastMs += 1
  }
  v7({ random, msecs: lastMs, seq }, id)
  return `${hex(0, 4)}-${hex(4, 6)}-${hex(6, 8)}-${hex(8, 10)}-${hex(10, 16)}`
}

function hex(from: number, to: number): string {
  let text = ''
  for (let i = from; i < to; i++) text += HEX[id[i]!]
  return text
}
