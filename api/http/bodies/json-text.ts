import { ApiError } from '../../../domain/errors.ts'

const TEXT = Symbol('the JSON text of this object')

type RawJsonObject = object & { readonly [TEXT]?: Buffer }

/**
 * Remembers the JSON text that an object was parsed from, such as a model's result. A response with this object as a
 * top-level member reuses the text: serializing an embedding again would take longer than everything else that a
 * gateway does with it. Don't change the object afterwards; a copy of it has no text.
 */
export function withText<T extends object>(value: T, text: Buffer): T {
  return Object.defineProperty(value, TEXT, { value: text })
}

/** An object that stays unparsed, because parsing megabytes would block the gateway's only thread. */
class UnparsedJson {
  toJSON(): unknown {
    const { [TEXT]: text } = this as RawJsonObject
    return JSON.parse((text ?? '').toString())
  }
}

/** Returns an object that represents a JSON text in a response body. */
export const ofText = (text: Buffer): object => withText(new UnparsedJson(), text)

/** The maximum size of a result for callers that need its values. */
const MAX_PARSED_BYTES = 4 * 1024 * 1024

/**
 * Returns a body with its unparsed members parsed; throws `payload_too_large` if a member is too long to parse while
 * other requests are waiting.
 */
export function parsed(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
  const texts = Object.entries(body).flatMap(([name, member]: [string, unknown]) => {
    const text = typeof member === 'object' && member !== null ? (member as RawJsonObject)[TEXT] : undefined
    return text ? [{ name, text, isParsed: !(member instanceof UnparsedJson) }] : []
  })
  const large = texts.find(({ text }) => text.length > MAX_PARSED_BYTES)
  if (large) {
    const megabytes = (large.text.length / 1024 / 1024).toFixed(1)
    const where =
      'task_id' in body ? `; read it over HTTP at /api/builder/v1/tasks/${String(body.task_id)}` : ''
    throw new ApiError(
      'payload_too_large',
      `the ${large.name} is ${megabytes} MB, too much for a tool${where}`,
    )
  }
  const unparsed = texts.filter(({ isParsed }) => !isParsed)
  if (unparsed.length === 0) return body
  return {
    ...body,
    ...Object.fromEntries(unparsed.map(({ name, text }) => [name, JSON.parse(text.toString())])),
  }
}

const CLOSING = Buffer.from('}')

/** Returns the JSON text of a response, as bytes if the text of one of its members is known. */
export function serialize(body: unknown): string | Buffer {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return JSON.stringify(body)
  // This runs for every response, so avoid building a list of entries.
  for (const name in body) {
    const member = (body as Record<string, unknown>)[name]
    const text = typeof member === 'object' && member !== null ? (member as RawJsonObject)[TEXT] : undefined
    if (text) return spliced(body, name, text)
  }
  return JSON.stringify(body)
}

function spliced(body: object, name: string, text: Buffer): Buffer {
  const rest = JSON.stringify({ ...body, [name]: undefined }).slice(0, -1)
  const begun = Buffer.from(`${rest}${rest === '{' ? '' : ','}${JSON.stringify(name)}:`)
  return Buffer.concat([begun, text, CLOSING])
}
