const UNITS = ['B', 'KB', 'MB', 'GB', 'TB']

/** Formats a size for display. */
export function size(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3))
  const value = bytes / 1000 ** power
  return `${value.toFixed(power === 0 ? 0 : 1)} ${UNITS[power]}`
}

/** Formats a duration for display. */
export function seconds(s: number): string {
  if (s < 90) return `${Math.round(s)} s`
  return s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`
}

/** Formats a metric with five significant digits. */
export const measure = (value: number): string => String(Number(value.toPrecision(5)))
