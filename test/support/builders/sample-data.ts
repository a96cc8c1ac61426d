import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

type Row = Record<string, string | number | boolean | null>

/** Returns a generator of repeatable numbers in [0, 1), so that generated data is the same in every run. */
function numbers(seed = 1): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Returns houses whose price depends on size, age and town; some ages are missing. */
export function houseRows(count: number): Row[] {
  const next = numbers()
  const towns = { Rome: 40, Oslo: 90, Lima: 10 }
  return Array.from({ length: count }, (_, index) => {
    const size = Math.round(30 + next() * 170)
    const age = Math.round(next() * 80)
    const town = (Object.keys(towns) as (keyof typeof towns)[])[index % 3] ?? 'Rome'
    const price = 2 * size - 0.5 * age + towns[town] + next() * 5
    return { size, age: next() < 0.1 ? null : age, town, garden: size > 100, price: Number(price.toFixed(2)) }
  })
}

/** Returns monthly sales with a trend and a yearly season. */
export function salesRows(count: number): Row[] {
  const next = numbers(7)
  return Array.from({ length: count }, (_, index) => {
    const month = new Date(Date.UTC(1990, index, 1)).toISOString().slice(0, 10)
    return {
      month,
      sales: Number((100 + index / 2 + 20 * Math.sin((index * Math.PI) / 6) + next()).toFixed(3)),
    }
  })
}

/** Returns short reviews whose sentiment shows in one or two words. */
export function reviewRows(count: number): Row[] {
  const next = numbers(3)
  const words = {
    good: ['lovely', 'great', 'superb'],
    bad: ['awful', 'dull', 'broken'],
    plain: ['grey', 'square'],
  }
  const filler = ['the', 'chair', 'is', 'on', 'a', 'table', 'with', 'paper', 'near', 'window']
  const pick = (list: readonly string[]): string => list[Math.floor(next() * list.length)] ?? ''
  return Array.from({ length: count }, (_, index) => {
    const mood = (['good', 'bad', 'plain'] as const)[index % 3] ?? 'plain'
    const text = Array.from({ length: 6 }, () => pick(filler))
    return { text: [...text, pick(words[mood]), pick(filler), pick(words[mood])].join(' '), label: mood }
  })
}

/** Writes rows as CSV and returns the path. */
export async function writeCsv(folder: string, rows: readonly Row[], name = 'data.csv'): Promise<string> {
  const columns = Object.keys(rows[0] ?? {})
  const lines = rows.map((row) => columns.map((column) => row[column] ?? '').join(','))
  const file = join(folder, name)
  await writeFile(file, [columns.join(','), ...lines, ''].join('\n'))
  return file
}

/** Writes rows as JSON lines and returns the path. */
export async function writeJsonl(folder: string, rows: readonly Row[]): Promise<string> {
  const file = join(folder, 'data.jsonl')
  await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return file
}

/** The indexes of 90 consecutive days. */
export const DAYS = Array.from({ length: 90 }, (_, at) => at)

/** Returns a date in 2023, written with the day first. */
export const formatDayFirst = (at: number): string =>
  new Date(Date.UTC(2023, 0, 1 + at)).toISOString().slice(0, 10).split('-').toReversed().join('/')
