/** A piece of text with its position in the audio, in seconds. */
export interface SpokenSegment {
  start: number
  end: number
  text: string
}

interface Cue {
  /** In milliseconds. */
  start: number
  end: number
  text: string
}

/** Returns segments as SubRip subtitles. */
export const toSrt = (segments: readonly SpokenSegment[]): string =>
  cuesOf(segments)
    .map(({ start, end, text }, i) => `${i + 1}\n${clock(start, ',')} --> ${clock(end, ',')}\n${text}\n\n`)
    .join('')

/** Returns segments as WebVTT subtitles. */
export const toVtt = (segments: readonly SpokenSegment[]): string =>
  `WEBVTT\n\n${cuesOf(segments)
    .map(({ start, end, text }) => `${clock(start, '.')} --> ${clock(end, '.')}\n${escaped(text)}\n\n`)
    .join('')}`

/** A segment without visible text gets no cue, because players treat an empty line as the end of a cue. */
const cuesOf = (segments: readonly SpokenSegment[]): Cue[] =>
  segments.flatMap(({ start, end, text }) => {
    const line = oneLine(text)
    const from = Math.round(start * 1_000)
    // WebVTT requires the end to be after the start.
    return line === '' ? [] : [{ start: from, end: Math.max(from + 1, Math.round(end * 1_000)), text: line }]
  })

/**
 * Collapses whitespace, line breaks and control characters to single spaces, and replaces arrows, which a player would
 * parse as cue times.
 */
const oneLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .replaceAll('-->', '->')
    .trim()

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

function clock(ms: number, point: ',' | '.'): string {
  const [hours, minutes, seconds] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1_000) % 60].map((part) =>
    String(Math.trunc(part)).padStart(2, '0'),
  )
  return `${hours}:${minutes}:${seconds}${point}${String(ms % 1_000).padStart(3, '0')}`
}
