const RANGE = /^bytes=(\d{1,15})-(\d{0,15})$/

/** A half-open range of a file's bytes: `start` is included, `end` is not. */
export interface ByteSpan {
  start: number
  end: number
}

/**
 * Parses a Range header with one span and an explicit start, which a resuming consumer sends. Any other header means
 * the whole file (RFC 9110, 14.2).
 */
export function spanOf(header: string | undefined, size: number): ByteSpan | 'whole' | 'unsatisfiable' {
  const [, from, to] = RANGE.exec(header ?? '') ?? []
  if (from === undefined) return 'whole'
  const start = Number(from)
  const end = to ? Math.min(size, Number(to) + 1) : size
  return start < end ? { start, end } : 'unsatisfiable'
}

/** Parses the Content-Range of a response. */
export function contentRangeOf(header: string | undefined): { start: number; size: number } | undefined {
  const [, start, size] = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15})$/.exec(header ?? '') ?? []
  return start === undefined ? undefined : { start: Number(start), size: Number(size) }
}
