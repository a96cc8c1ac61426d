import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** A new signing secret: 32 random bytes behind the prefix. The whole text is the key. */
export const newWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64url')}`

/**
 * `Service-Signature`: HMAC-SHA256 in hex over `<unix seconds>.<raw body>`, one `v1` for each secret that is valid, newest first.
 */
export function signWebhook(secrets: readonly string[], timestamp: number, body: Buffer): string {
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', secret).update(`${timestamp}.`).update(body)
    return `v1=${hmac.digest('hex')}`
  })
  return [`t=${timestamp}`, ...signatures].join(',')
}

/** How far from now a signature's time may be: older ones may be replays. */
const TOLERANCE_S = 300

/** What a receiver does: whether `header` signs exactly these bytes with one of the secrets, not too long ago. */
export function verifyWebhook(
  secrets: readonly string[],
  header: string,
  body: Buffer,
  now = new Date(),
): boolean {
  const parts = header.split(',').map((part) => part.split('=', 2) as [string, string?])
  const timestamp = Number(parts.find(([name]) => name === 't')?.[1])
  if (!(Math.abs(now.getTime() / 1000 - timestamp) <= TOLERANCE_S)) return false
  const given = parts.flatMap(([name, value]) => (name === 'v1' && value ? [Buffer.from(value, 'hex')] : []))
  return secrets.some((secret) => {
    const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest()
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected))
  })
}
