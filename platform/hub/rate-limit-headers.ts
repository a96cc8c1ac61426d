/**
 * Returns the seconds until a rate limit ends: `Retry-After`, otherwise the `t` of `RateLimit`, the only one that some
 * hubs send.
 */
export function retryAfter(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  now: number,
): number | undefined {
  const said = [headers['retry-after'] ?? []].flat()[0]?.trim()
  if (said && /^\d+$/.test(said)) return Number(said)
  const date = said ? Date.parse(said) : Number.NaN
  if (Number.isFinite(date)) return Math.max(0, Math.ceil((date - now) / 1000))
  const left = /(?:^|[;,\s])t=(\d+)/.exec([headers['ratelimit'] ?? []].flat().join(','))
  return left ? Number(left[1]) : undefined
}
