import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { TOKEN_PREFIX } from '../domain/token-prefixes.ts'

/** Creates a signing secret: a prefix and 32 random bytes. The whole text is the key. */
export const newWebhookSecret = (): string =>
  `${TOKEN_PREFIX.webhookSecret}${randomBytes(32).toString('base64url')}`

/**
 * Builds `Service-Signature`: HMAC-SHA256 in hex over `<unix seconds>.<raw body>`, with one `v1` per valid secret,
 * newest first.
 */
export function signWebhook(secrets: readonly string[], timestamp: number, body: Buffer): string {
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', secret).update(`${timestamp}.`).update(body)
    return `v1=${hmac.digest('hex')}`
  })
  return [`t=${timestamp}`, ...signatures].join(',')
}

/** The largest accepted difference between the signature's time and now; an older signature may be a replay. */
const MAX_SKEW_S = 300

/**
 * Verifies a signature as a receiver does: returns whether `header` signs exactly these bytes with one of the secrets,
 * and is recent.
 */
export function verifyWebhook(
  secrets: readonly string[],
  header: string,
  body: Buffer,
  now = new Date(),
): boolean {
  const parts = header.split(',').map((part) => part.split('=', 2) as [string, string?])
  const timestamp = Number(parts.find(([name]) => name === 't')?.[1])
  if (!(Math.abs(now.getTime() / 1000 - timestamp) <= MAX_SKEW_S)) return false
  const given = parts.flatMap(([name, value]) => (name === 'v1' && value ? [Buffer.from(value, 'hex')] : []))
  return secrets.some((secret) => {
    const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest()
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected))
  })
}
