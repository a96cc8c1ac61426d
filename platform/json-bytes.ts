const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d
const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** The position of a value in an object's JSON text. */
export interface ValueSpan {
  start: number
  end: number
}

interface Member extends ValueSpan {
  name: string
}

/**
 * Returns the bytes of a member's value in a JSON object, as the client sent them. Forwarding them costs a fraction of
 * serializing the value again, which takes 630 µs for 139 KB. `json` has been parsed before, so it is well formed. If a
 * name occurs twice, the last one wins, as in `JSON.parse`.
 */
export function memberBytes(json: Buffer, name: string): Buffer | undefined {
  const member = membersOf(json).findLast((each) => each.name === name)
  return member && json.subarray(member.start, member.end)
}

/**
 * Replaces the values of top-level members of a JSON object and leaves all other bytes unchanged. An absent member is
 * added at the front.
 */
export function spliceMembers(json: Buffer, values: Readonly<Record<string, string>>): Buffer {
  const members = membersOf(json)
  const parts: Buffer[] = []
  let at = skipSpaces(json, 0) + 1
  const absent = Object.keys(values).filter((name) => !members.some((each) => each.name === name))
  if (absent.length > 0) {
    const added = absent.map((name) => `${JSON.stringify(name)}:${values[name]}`).join()
    parts.push(Buffer.from(`{${added}${members.length > 0 ? ',' : ''}`))
  } else parts.push(json.subarray(0, at))
  for (const { name, start, end } of members) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value === undefined) continue
    parts.push(json.subarray(at, start), Buffer.from(value))
    at = end
  }
  parts.push(json.subarray(at))
  return Buffer.concat(parts)
}

/**
 * Returns a function that finds the value of a string member that an object is known to have; `undefined` when the
 * member occurs twice. If the quoted name occurs only once in the whole text, and no name can be escaped, the function
 * doesn't have to scan the text.
 */
export function memberFinder(name: string): (json: Buffer) => ValueSpan | undefined {
  const quoted = Buffer.from(JSON.stringify(name))
  return (json) => {
    const at = json.indexOf(quoted)
    const isPlain = at !== -1 && !json.includes(quoted, at + 1) && !json.includes(ESCAPED)
    return isPlain ? stringAfter(json, at + quoted.length) : onlyMember(json, name)
  }
}

/** Replaces the bytes at one position. */
export const replaceAt = (json: Buffer, { start, end }: ValueSpan, value: Buffer): Buffer =>
  Buffer.concat([json.subarray(0, start), value, json.subarray(end)])

/** Returns the position of the first element of a JSON array; undefined when it is empty. */
export function firstElement(array: Buffer): ValueSpan | undefined {
  const start = skipSpaces(array, skipSpaces(array, 0) + 1)
  return isClosing(array[start] ?? 0) ? undefined : { start, end: valueEnd(array, start) }
}

function stringAfter(json: Buffer, from: number): ValueSpan {
  const start = json.indexOf(QUOTE, from)
  return { start, end: stringEnd(json, start) }
}

function onlyMember(json: Buffer, name: string): ValueSpan | undefined {
  const [found, another] = membersOf(json).filter((member) => member.name === name)
  return another ? undefined : found
}

/** The start of an escaped character in a name. */
const ESCAPED = Buffer.from('\\u')

/** Returns the top-level members of a JSON object, with their names unescaped. */
function membersOf(json: Buffer): Member[] {
  const members: Member[] = []
  let at = skipSpaces(json, 0) + 1
  for (;;) {
    at = skipSpaces(json, at)
    if (json[at] !== QUOTE) return members
    const keyEnd = stringEnd(json, at)
    const start = skipSpaces(json, skipTo(json, keyEnd, COLON) + 1)
    const end = valueEnd(json, start)
    members.push({ name: nameAt(json, at, keyEnd), start, end })
    at = skipSpaces(json, end)
    if (json[at] !== COMMA) return members
    at++
  }
}

/** A name may contain escapes. */
function nameAt(json: Buffer, from: number, to: number): string {
  const text = json.toString('utf8', from + 1, to - 1)
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
}

function skipSpaces(json: Buffer, from: number): number {
  let at = from
  while (isSpace(json[at])) at++
  return at
}

const skipTo = (json: Buffer, from: number, byte: number): number => json.indexOf(byte, from)

/**
 * Returns the position after the closing quote of the string that opens at `from`. For an unterminated string, as in
 * text that is not JSON, that is the end of the text.
 */
export function stringEnd(json: Buffer, from: number): number {
  // One search skips a long string, such as an image in base64.
  const quote = json.indexOf(QUOTE, from + 1)
  if (quote === -1) return json.length + 1
  if (json[quote - 1] !== BACKSLASH) return quote + 1
  // With escapes, only a scan from the start finds the end of the string; one search per escape would be slower.
  let at = from + 1
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1
  return at + 1
}

function valueEnd(json: Buffer, from: number): number {
  let depth = 0
  let at = from
  while (at < json.length) {
    // oxlint-disable-next-line typescript/no-non-null-assertion -- the loop bounds the index, and runs for every byte
    const byte = json[at]!
    if (byte === QUOTE) {
      at = stringEnd(json, at)
      if (depth === 0) return at
      continue
    }
    if (isOpening(byte)) depth++
    else if (isClosing(byte)) {
      if (depth === 0) return at
      depth--
      if (depth === 0) return at + 1
    } else if (depth === 0 && (byte === COMMA || isSpace(byte))) return at
    at++
  }
  return at
}
