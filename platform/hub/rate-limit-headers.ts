/**
 * Returns the seconds until a rate limit ends: `Retry-After`, or else the `t` of `RateLimit`, the only header that some
 * hubs send.
 */
export function retryAfter(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  now: number,
): number | undefined {
  const retryAfterHeader = [headers['retry-after'] ?? []].flat()[0]?.trim()
  if (retryAfterHeader && /^\d+$/.test(retryAfterHeader)) return Number(retryAfterHeader)
  const date = retryAfterHeader ? Date.parse(retryAfterHeader) : Number.NaN
  if (Number.isFinite(date)) return Math.max(0, Math.ceil((date - now) / 1000))
  const resetMatch = /(?:^|[;,\s])t=(\d+)/.exec([headers['ratelimit'] ?? []].flat().join(','))
  return resetMatch ? Number(resetMatch[1]) : undefined
}
