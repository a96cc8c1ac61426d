const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** `3 minutes ago`. */
export function ago(at: string | null | undefined, now = Date.now()): string {
  if (!at) return '–'
  const after = Math.round((Date.parse(at) - now) / 1000)
  const [unit, size] = UNITS.find(([, each]) => Math.abs(after) >= each) ?? ['second', 1]
  return relative.format(Math.trunc(after / size), unit)
}

/** The time between two moments, or until now. */
export function lasted(from: string | null, to: string | null): string {
  if (!from) return '–'
  return seconds(((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000)
}

/** `2 min 5 s`. */
export function seconds(count: number): string {
  const whole = Math.max(0, Math.round(count))
  const [h, m, s] = [Math.trunc(whole / 3600), Math.trunc((whole % 3600) / 60), whole % 60]
  if (h > 0) return `${h} h ${m} min`
  return m > 0 ? `${m} min ${s} s` : `${s} s`
}

export function bytes(count: number): string {
  const power = count === 0 ? 0 : Math.min(4, Math.trunc(Math.log(count) / Math.log(1000)))
  const value = count / 1000 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${['B', 'kB', 'MB', 'GB', 'TB'][power] ?? 'B'}`
}

export const number = (value: number): string => value.toLocaleString('en')

/** The end of an id, because ids from the same hour begin alike. */
export const shortId = (id: string): string => `…${id.slice(-8)}`

export function measure(value: unknown): string {
  if (typeof value !== 'number') return typeof value === 'string' ? value : JSON.stringify(value)
  return Number.isInteger(value) || Math.abs(value) >= 1_000
    ? number(Math.round(value))
    : value.toPrecision(4)
}

/** `time` in full, for the tooltip of a relative time. */
export const fullTime = (at: string | null | undefined): string => (at ? new Date(at).toLocaleString() : '')
