const TEXT = Symbol('the JSON text of this object')

type Known = object & { readonly [TEXT]?: Buffer }

/**
 * Notes the JSON text that an object has been parsed from, such as the result of a model. A response in which the object
 * is a top-level member takes its text as it is: serializing an embedding again would take longer than all else that a
 * gateway does with it. The object must not be changed afterwards; a copy of it has no text.
 */
export function withText<T extends object>(value: T, text: Buffer): T {
  return Object.defineProperty(value, TEXT, { value: text })
}

const CLOSING = Buffer.from('}')

/** Returns the JSON text of a response: bytes when the text of one of its members is known. */
export function serialize(body: unknown): string | Buffer {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return JSON.stringify(body)
  // Every response passes here, so the loop avoids building a list of pairs.
  for (const name in body) {
    const member = (body as Record<string, unknown>)[name]
    const text = typeof member === 'object' && member !== null ? (member as Known)[TEXT] : undefined
    if (text) return spliced(body, name, text)
  }
  return JSON.stringify(body)
}

function spliced(body: object, name: string, text: Buffer): Buffer {
  const rest = JSON.stringify({ ...body, [name]: undefined }).slice(0, -1)
  const begun = Buffer.from(`${rest}${rest === '{' ? '' : ','}${JSON.stringify(name)}:`)
  return Buffer.concat([begun, text, CLOSING])
}
