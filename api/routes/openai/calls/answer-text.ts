const OPENING = 0x7b
const CLOSING = 0x7d

/**
 * Returns whether the bytes look like a complete response with its usage. The node has checked this, but the gateway
 * does not rely on the node.
 */
export const seemsWhole = (body: Buffer): boolean =>
  body[0] === OPENING && body.at(-1) === CLOSING && body.includes('"usage"')

/** Parses a response; returns undefined if it is not a JSON object. */
export function objectIn(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(body.toString()) as unknown
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
