/** One field of a message, with its position in the message's bytes. */
interface Field {
  number: number
  start: number
  /** The content of a length-delimited field; undefined for numbers. */
  value: Buffer | undefined
  end: number
}

/** A message that cannot be parsed, or repeats a field; two parsers might interpret it differently. */
export class WireError extends Error {
  override readonly name = 'WireError'
}

const VARINT = 0
const FIXED64 = 1
const DELIMITED = 2
const FIXED32 = 5
const MAX_VARINT = 10
/** No valid message here contains a larger length. */
const MAX_BITS = 49

/**
 * The top-level fields of a protocol buffer, as bytes. Fields that the gate does not use are neither parsed nor copied,
 * regardless of their content.
 */
export class Message {
  readonly #bytes: Buffer
  readonly #fields: readonly Field[]

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#fields = fieldsOf(bytes)
  }

  /** Returns the content of a length-delimited field; empty when it is absent, as the encoding defines. */
  bytes(number: number): Buffer {
    const found = this.#fields.filter((field) => field.number === number)
    const [field] = found
    if (found.length > 1) throw new WireError(`field ${number} occurs more than once`)
    if (field && !field.value) throw new WireError(`field ${number} is not length-delimited`)
    return field?.value ?? Buffer.alloc(0)
  }

  text(number: number): string {
    return this.bytes(number).toString()
  }

  /** Returns the message with a new value in one field. */
  with(number: number, value: Uint8Array): Buffer {
    const others = this.#fields
      .filter((field) => field.number !== number)
      .map(({ start, end }) => this.#bytes.subarray(start, end))
    return Buffer.concat([delimited(number, value), ...others])
  }
}

const delimited = (number: number, value: Uint8Array): Buffer =>
  Buffer.concat([varint((number << 3) | DELIMITED), varint(value.length), value])

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return Buffer.from(bytes)
}

function fieldsOf(bytes: Buffer): Field[] {
  const fields: Field[] = []
  for (let at = 0; at < bytes.length;) {
    const start = at
    const tag = readVarint(bytes, at)
    const number = Math.floor(tag.value / 8)
    const kind = tag.value % 8
    at = tag.end
    let value: Buffer | undefined
    if (kind === VARINT) at = readVarint(bytes, at).end
    else if (kind === FIXED64) at += 8
    else if (kind === FIXED32) at += 4
    else if (kind === DELIMITED) {
      const length = readVarint(bytes, at)
      at = length.end + length.value
      value = bytes.subarray(length.end, at)
    } else throw new WireError('the message contains an unsupported wire type')
    if (number === 0 || at > bytes.length) throw new WireError('the message is truncated')
    fields.push({ number, start, value, end: at })
  }
  return fields
}

function readVarint(bytes: Buffer, start: number): { value: number; end: number } {
  let value = 0
  for (let index = 0; index < MAX_VARINT; index++) {
    const byte = bytes[start + index]
    if (byte === undefined) break
    // Bits beyond the limit can only be in a number that is skipped, never in a tag or length that is used.
    value +=
      index * 7 <= MAX_BITS - 7 ? (byte & 0x7f) * 2 ** (index * 7) : (byte & 0x7f) * Number.MAX_SAFE_INTEGER
    if (byte < 0x80) return { value, end: start + index + 1 }
  }
  throw new WireError('the message is truncated')
}
