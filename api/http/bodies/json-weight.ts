import { randomBytes } from 'node:crypto'
import { stringEnd } from '../../../platform/json-bytes.ts'

/** The estimated cost of parsing a JSON text. */
export interface JsonWeight {
  /**
   * The memory that the parsed values use, in bytes: about the size of the text for long strings, but many times as
   * much for `{},{},`.
   */
  readonly bytes: number
  /** The number of distinct member names, as written. Counting stops one above the limit. */
  readonly names: number
  /** The number of objects and arrays. */
  readonly containers: number
  /** The number of objects, arrays and commas, which is about the number of values. */
  readonly values: number
  /** The number of members that need a new V8 layout (hidden class), because no earlier object started the same way. */
  readonly unlike: number
  /** The approximate number of distinct short strings, each of which V8 interns. */
  readonly shortTexts: number
  /** True when lists and objects are nested deeper than `MAX_JSON_DEPTH`. */
  readonly isTooDeep: boolean
  /** False if only the parsed value can show whether `checkShape` rejects it. */
  readonly isPlain: boolean
}

/** Column names repeat in every row of a table, so only distinct names count. */
export const MAX_JSON_NAMES = 20_000
/**
 * The maximum share of a large body's bytes that may open lists and objects. V8 parses a megabyte of `[[[]]]` in 60 ms,
 * and a megabyte of `[],[],` or of rows in 30 ms. Lists of single digits have a share of 0.25.
 */
export const MAX_CONTAINER_SHARE = 0.4
/**
 * The numbers of `unlike` members and `shortTexts` that any body may have, and their maximum share of a larger body. An
 * unlike member takes 1.3 µs to parse and a distinct short string 0.9 µs, ten times as long as others.
 */
export const MAX_UNLIKE = { count: 40_000, share: 0.02 }
export const MAX_SHORT_TEXTS = { count: 200_000, share: 0.06 }
/** The deepest JSON that is accepted. */
export const MAX_JSON_DEPTH = 64

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const UNDERSCORE = 0x5f
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const SPACE = 0x20
const PLUS = 0x2b
const NINE = 0x39
const ZERO = 0x30
const [E, UPPER_E] = [0x65, 0x45]

/** In V8 a list takes 32 bytes, and a table row 24 plus 8 per column. */
const CONTAINER_BYTES = 32
const MEMBER_BYTES = 8
/** The first occurrence of a name: its text, plus a hash table entry or a new object shape. */
const NAME_BYTES = 64
/** Longer strings are stored again as values; shorter ones are mostly member names, which V8 stores once. */
const SHORT_TEXT = 32
/** With fewer digits and no exponent, a number can't exceed the range of a double. */
const MANY_DIGITS = 300
/** The length of `"__proto__"`. */
const PROTO_LENGTH = 11

/** V8 interns strings of up to this many characters. */
const MAX_SHORT_TEXT = 10
/** V8 caches this many transitions per layout; beyond that it creates a new layout for every object. */
const MAX_BRANCHES = 1_500
/** Objects with more members become hash tables. */
const MAX_LAYOUT_MEMBERS = 128

/** The current object's layout at each depth, as a hash of its names so far, and its number of members. */
const layouts = new Int32Array(MAX_JSON_DEPTH + 2)
const members = new Int32Array(MAX_JSON_DEPTH + 2)
/** The layouts of the previous object at each depth, after each of its members. */
const layoutsBefore = new Int32Array((MAX_JSON_DEPTH + 2) * (MAX_LAYOUT_MEMBERS + 1))
/** One bit per layout and per short string that has occurred. Hash collisions make the counts slightly low. */
const SEEN_BITS = 1 << 22
const seenLayouts = new Uint32Array(SEEN_BITS / 32)
const seenTexts = new Uint32Array(SEEN_BITS / 32)
/** The number of transitions per layout. */
const branches = new Uint16Array(1 << 16)

/** Hashes of one text's names; an entry is valid only if its stamp is the current text's. */
const SLOTS = 1 << 16
const hashes = new Int32Array(SLOTS)
const stamps = new Uint32Array(SLOTS)
let stamp = 0
/** Random, so no client can craft distinct names with equal hashes. */
const SEED = randomBytes(4).readInt32LE()

/**
 * Weighs a JSON text in one pass, at 3 to 10 ms per megabyte. Distinct names make parsing slow: an object with 100,000
 * names takes V8 100 ms to parse and 200 ms for every copy. A megabyte of anything else takes 5 to 40 ms.
 */
export function weighJson(json: Buffer): JsonWeight {
  if (++stamp === 2 ** 32) stamp = stamps.fill(0) && 1
  for (const table of [seenLayouts, seenTexts, branches, layoutsBefore]) table.fill(0)
  let unlike = 0
  let shortTexts = 0
  let containers = 0
  let commas = 0
  let texts = 0
  let names = 0
  let depth = 0
  let digits = 0
  let isTooDeep = false
  let isPlain = true
  for (let at = 0; at < json.length; at++) {
    // oxlint-disable-next-line typescript/no-non-null-assertion -- the loop bounds the index, and runs for every byte
    const byte = json[at]!
    if (byte >= ZERO && byte <= NINE) {
      if (++digits === MANY_DIGITS) isPlain = false
      continue
    }
    // A decimal point doesn't end a number, but the digits after it can't make the number infinite.
    digits = 0
    if (byte === QUOTE) {
      const end = stringEnd(json, at) - 1
      const length = end - at
      if (length > SHORT_TEXT) texts += length
      let next = end + 1
      // oxlint-disable-next-line typescript/no-non-null-assertion -- the comparison is false at the end of the text
      while (json[next]! <= SPACE) next++
      if (json[next] === COLON) {
        const hash = hashOf(json, at + 1, end)
        if (isNew(hash) && ++names > MAX_JSON_NAMES) break
        if (mayBeProto(json, at, end)) isPlain = false
        if (!isTooDeep && isUnlike(hash, depth)) unlike++
      } else if (length <= MAX_SHORT_TEXT + 1 && isFirst(seenTexts, hashOf(json, at + 1, end))) shortTexts++
      at = end
    } else if (byte === COMMA) commas++
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      containers++
      if (++depth > MAX_JSON_DEPTH) isTooDeep = true
      else {
        layouts[depth] = SEED
        members[depth] = 0
      }
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--
    else if ((byte === E || byte === UPPER_E) && isPositive(json[at + 1])) isPlain = false
  }
  const bytes = texts + containers * CONTAINER_BYTES + commas * MEMBER_BYTES + names * NAME_BYTES
  const values = containers + commas
  return { bytes, names, containers, values, unlike, shortTexts, isTooDeep, isPlain: isPlain && !isTooDeep }
}

/** Returns whether an exponent is positive, given the byte after the `e`. */
const isPositive = (byte = 0): boolean => byte === PLUS || (byte >= ZERO && byte <= NINE)

/** Returns whether the name between two quotes may be `__proto__`, possibly written with escapes. */
const mayBeProto = (json: Buffer, start: number, end: number): boolean =>
  end - start + 1 >= PROTO_LENGTH && (json[start + 1] === UNDERSCORE || json[start + 1] === BACKSLASH)

/** Returns whether JSON takes many times as long to parse as other JSON of its size, or is nested too deeply. */
export const isDear = ({ names, unlike, containers, isTooDeep }: JsonWeight, bytes: number): boolean =>
  isTooDeep ||
  names > MAX_JSON_NAMES ||
  unlike > Math.max(MAX_UNLIKE.count, bytes * MAX_UNLIKE.share) ||
  containers > bytes * MAX_CONTAINER_SHARE

function hashOf(json: Buffer, from: number, to: number): number {
  let hash = SEED
  // oxlint-disable-next-line typescript/no-non-null-assertion -- the loop bounds the index, and runs for every byte
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ json[at]!, 0x01000193)
  return hash ^ (hash >>> 15)
}

/** Records a name; returns whether it is new in this text. */
function isNew(hash: number): boolean {
  for (let slot = hash & (SLOTS - 1); ; slot = (slot + 1) & (SLOTS - 1)) {
    if (stamps[slot] !== stamp) {
      stamps[slot] = stamp
      hashes[slot] = hash
      return true
    }
    if (hashes[slot] === hash) return false
  }
}

/** Adds a name to the layout of the object at a depth; returns whether V8 needs a new layout. */
function isUnlike(hash: number, depth: number): boolean {
  const member = (members[depth] ?? 0) + 1
  members[depth] = member
  if (member > MAX_LAYOUT_MEMBERS) return false
  const before = layouts[depth] ?? 0
  const mixed = Math.imul(before ^ hash, 0x5bd1e995)
  const layout = mixed ^ (mixed >>> 15)
  layouts[depth] = layout
  // V8 tries the previous object's layout first, so equal rows are fast no matter what came before them.
  const index = depth * (MAX_LAYOUT_MEMBERS + 1) + member
  if (layoutsBefore[index] === layout) return false
  layoutsBefore[index] = layout
  const slot = before & (branches.length - 1)
  const branched = branches[slot] ?? 0
  if (branched > MAX_BRANCHES) return true
  if (!isFirst(seenLayouts, layout)) return false
  branches[slot] = branched + 1
  return true
}

/** Sets the bit of a hash; returns whether it was clear before. */
function isFirst(seen: Uint32Array, hash: number): boolean {
  const word = (hash >>> 5) & (seen.length - 1)
  const bit = 1 << (hash & 31)
  const bits = seen[word] ?? 0
  if ((bits & bit) !== 0) return false
  seen[word] = bits | bit
  return true
}
