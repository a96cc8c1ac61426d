import { performance } from 'node:perf_hooks'
import type { Hearth } from '../../client/index.ts'
import { importMadeModel, type ImportTarget } from './import-model.ts'
import { infer } from './steps.ts'
import { learnWords, writeWordModel } from './word-vectors.ts'

/** A patient of the study, described in words. */
export interface DescribedPatient {
  /** The facts at the start of the study; this text is searched. */
  text: string
  /** The course of the disease in the following year, as a number and as a word. */
  progression: number
  outcome: string
}

/** The result of a search over the rows. */
export interface SearchResult {
  nearest: readonly DescribedPatient[]
  ms: number
}

const DECADES = ['teens', 'twenties', 'thirties', 'forties', 'fifties', 'sixties', 'seventies']
/** The columns that are described by terciles: low, medium or high. */
const THIRDS = { bp: 'pressure', s3: 'hdl', s5: 'triglycerides', s6: 'sugar' } as const
const LEVELS = ['low', 'medium', 'high'] as const
const OUTCOMES = ['slow-progression', 'moderate-progression', 'fast-progression'] as const

/** Describes the rows of the study in words. */
export function describeRows(csv: string): DescribedPatient[] {
  const [header = '', ...lines] = csv.trim().split(/\r?\n/)
  const names = header.split(',')
  const rows = lines.map((line) => {
    const values = line.split(',').map(Number)
    return Object.fromEntries(names.map((name, i) => [name, values[i] ?? Number.NaN]))
  })
  const thirdOf = (column: string) => {
    const sorted = rows.map((row) => row[column] ?? 0).toSorted((a, b) => a - b)
    const bounds = [1, 2].map((third) => sorted[Math.floor((third * sorted.length) / 3)] ?? 0)
    return (value: number) => bounds.filter((bound) => value >= bound).length
  }
  const thirds = Object.entries(THIRDS).map(([column, word]) => ({ column, word, of: thirdOf(column) }))
  const outcomeOf = thirdOf('target')
  return rows.map((row) => {
    const { age = 0, bmi = 0, target = 0 } = row
    const weight = bmi < 25 ? 'lean' : bmi < 30 ? 'overweight' : 'obese'
    const levels = thirds.map(({ column, word, of }) => `${LEVELS[of(row[column] ?? 0)]}-${word}`)
    return {
      text: [DECADES[Math.floor(age / 10) - 1] ?? 'older', weight, ...levels].join(' '),
      progression: target,
      outcome: OUTCOMES[outcomeOf(target)] ?? '',
    }
  })
}

/** Builds an embedding model from the words of rows and their outcomes, on this machine, and imports it. */
export function importWordModel(platform: ImportTarget, rows: readonly DescribedPatient[]): Promise<string> {
  return importMadeModel(platform, {
    name: 'words',
    task: 'embeddings',
    async write(folder) {
      await writeWordModel(folder, learnWords(rows.map(({ text, outcome }) => `${text} ${outcome}`)))
      return folder
    },
  })
}

/** Returns the vectors of texts. */
export async function embed(h: Hearth, model: string, texts: readonly string[]): Promise<number[][]> {
  const { result } = await infer(h, { endpoint_id: model, name: model, example_input: { text: texts } })
  return (result as unknown as { embeddings: number[][] }).embeddings
}

/** Finds the rows whose vectors are nearest to the question's vector. */
export async function search(
  h: Hearth,
  {
    model,
    rows,
    vectors,
  }: { model: string; rows: readonly DescribedPatient[]; vectors: readonly number[][] },
  { question, count }: { question: string; count: number },
): Promise<SearchResult> {
  const started = performance.now()
  const [asked = []] = await embed(h, model, [question])
  // All vectors have length 1, so this is their cosine similarity.
  const near = vectors.map((vector) => vector.reduce((sum, value, i) => sum + value * (asked[i] ?? 0), 0))
  const order = rows.map((_, row) => row).toSorted((a, b) => (near[b] ?? 0) - (near[a] ?? 0))
  const nearest = order.slice(0, count).flatMap((row) => rows[row] ?? [])
  return { nearest, ms: performance.now() - started }
}

export const meanProgression = (rows: readonly DescribedPatient[]): number =>
  rows.reduce((sum, { progression }) => sum + progression, 0) / rows.length
