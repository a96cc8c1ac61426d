const RANGE = /^bytes=(\d{1,15})-(\d{0,15})$/

/** Bytes of a file: from `start` up to, and without, `end`. */
export interface ByteSpan {
  start: number
  end: number
}

/** Reads a Range header of one span from a known start, as a consumer that goes on sends it; others ask for the whole file (RFC 9110, 14.2). */
export function spanOf(header: string | undefined, size: number): ByteSpan | 'whole' | 'unsatisfiable' {
  const [, from, to] = RANGE.exec(header ?? '') ?? []
  if (from === undefined) return 'whole'
  const start = Number(from)
  const end = to ? Math.min(size, Number(to) + 1) : size
  return start < end ? { start, end } : 'unsatisfiable'
}

/** Reads the Content-Range of an answer. */
export function contentRangeOf(header: string | undefined): { start: number; size: number } | undefined {
  const [, start, size] = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15})$/.exec(header ?? '') ?? []
  return start === undefined ? undefined : { start: Number(start), size: Number(size) }
}
