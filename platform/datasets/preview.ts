import type { DatasetPreview, PreviewValue } from '../../schemas/dataset.ts'
import type { DatasetColumn } from './profile.ts'

/** The rows and columns at the start of a dataset that the figures are computed from. */
export const SAMPLED = { rows: 1_000, columns: 200, characters: 500 }
/** The number of rows that are stored unchanged; fewer if they take too many bytes. */
const KEPT_ROWS = 50
const KEPT_BYTES = 512 * 1024
const COMMON_VALUES = 5

/** One row as strings, each cut one character beyond its limit; null for a missing value. */
export type SampledRow = readonly (string | null)[]

/** Summarizes the first rows of a dataset. */
export function previewOf(columns: readonly DatasetColumn[], sample: readonly SampledRow[]): DatasetPreview {
  const shown = columns.slice(0, SAMPLED.columns)
  const rows = sample
    .slice(0, KEPT_ROWS)
    .map((row) => shown.map(({ type }, i) => valueOf(row[i] ?? null, type)))
  let bytes = 0
  const fits = rows.filter((row) => (bytes += Buffer.byteLength(JSON.stringify(row))) <= KEPT_BYTES)
  return {
    sampled_rows: sample.length,
    columns: shown.map((column, i) =>
      summaryOf(
        column,
        sample.map((row) => row[i] ?? null),
      ),
    ),
    rows: fits,
  }
}

const isNumeric = (type: string): boolean => type === 'integer' || type === 'number'

function valueOf(text: string | null, type: string): PreviewValue {
  if (text === null) return null
  if (isNumeric(type)) {
    const value = Number(text)
    // An integer too large for JSON readers to represent exactly stays text.
    if (text.trim() !== '' && Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER)
      return value
  }
  if (type === 'boolean') return text.trim().toLowerCase() === 'true'
  return text.length > SAMPLED.characters ? `${text.slice(0, SAMPLED.characters)}…` : text
}

function summaryOf(
  { name, type }: DatasetColumn,
  texts: readonly (string | null)[],
): DatasetPreview['columns'][number] {
  const counts = new Map<string, number>()
  const values: number[] = []
  let missing = 0
  for (const text of texts) {
    if (text === null) {
      missing += 1
      continue
    }
    counts.set(text, (counts.get(text) ?? 0) + 1)
    const value = isNumeric(type) ? Number(text) : Number.NaN
    if (Number.isFinite(value)) values.push(value)
  }
  const common = [...counts].toSorted(([, a], [, b]) => b - a).slice(0, COMMON_VALUES)
  return {
    name,
    type,
    missing,
    distinct: counts.size,
    min: values.length > 0 ? values.reduce((a, b) => Math.min(a, b)) : null,
    max: values.length > 0 ? values.reduce((a, b) => Math.max(a, b)) : null,
    mean: values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : null,
    common: common.map(([text, count]) => ({ value: valueOf(text, type), count })),
  }
}

/** Truncates a string by copying it, because a slice would keep the whole string in memory. */
export const cutText = (text: string): string =>
  text.length <= SAMPLED.characters ? text : Buffer.from(text.slice(0, SAMPLED.characters + 1)).toString()
