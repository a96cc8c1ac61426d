const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d
const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Where a value stands in the text of an object. */
export interface Place {
  start: number
  end: number
}

interface Member extends Place {
  name: string
}

/**
 * The bytes of one member's value in a JSON object, as the client sent them: forwarding them costs a fraction of writing
 * the value out again (630 µs for 139 KB, measured). `json` has been parsed before, so it is well formed; of a name that
 * stands twice the last one counts, as in `JSON.parse`.
 */
export function memberBytes(json: Buffer, name: string): Buffer | undefined {
  const member = membersOf(json).findLast((each) => each.name === name)
  return member && json.subarray(member.start, member.end)
}

/**
 * A JSON object with the values of some of its own members in other words, and everything else byte for byte as it was. A
 * member that is absent is put in front.
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
 * Finds the value of a string member that an object is known to have; `undefined` when it stands there twice. Where the
 * quoted name stands but once in the whole text, and no name can be written with escapes, it is found without reading all.
 */
export function memberFinder(name: string): (json: Buffer) => Place | undefined {
  const quoted = Buffer.from(JSON.stringify(name))
  return (json) => {
    const at = json.indexOf(quoted)
    const isPlain = at !== -1 && !json.includes(quoted, at + 1) && !json.includes(ESCAPED)
    return isPlain ? stringAfter(json, at + quoted.length) : onlyMember(json, name)
  }
}

/** The text with other bytes in one place. */
export const replaceAt = (json: Buffer, { start, end }: Place, value: Buffer): Buffer =>
  Buffer.concat([json.subarray(0, start), value, json.subarray(end)])

function stringAfter(json: Buffer, from: number): Place {
  const start = json.indexOf(QUOTE, from)
  return { start, end: stringEnd(json, start) }
}

function onlyMember(json: Buffer, name: string): Place | undefined {
  const [found, another] = membersOf(json).filter((member) => member.name === name)
  return another ? undefined : found
}

/** How letters of a name can be written otherwise. */
const ESCAPED = Buffer.from('\\u')

/** The members of a JSON object itself, however their names are written; not those of what is nested there. */
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

/** A name may be written with escapes. */
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
 * Finds the place just behind the closing quote of the string that opens at `from`. A string that does not end, as in a
 * text that is no JSON, ends behind the text.
 */
export function stringEnd(json: Buffer, from: number): number {
  // One search passes over a long string, such as an image in base64.
  const quote = json.indexOf(QUOTE, from + 1)
  if (quote === -1) return json.length + 1
  if (json[quote - 1] !== BACKSLASH) return quote + 1
  // Only a walk from the beginning shows which quote ends a string with escapes; one search per escape is slower.
  let at = from + 1
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1
  return at + 1
}

function valueEnd(json: Buffer, from: number): number {
  let depth = 0
  let at = from
  while (at < json.length) {
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
