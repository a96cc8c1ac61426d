import { DatasetRefused, MAX_COLUMNS, type DatasetProfile } from './dataset-profile.ts'
import type { ReadAnswer, ReadOrder } from './dataset-reader.ts'

// Reads one dataset in a process of its own: what the native readers take, or break, ends with it. Each reader is
// loaded only when it is needed, for loading all of them takes longer than reading a usual file.

const read: Record<ReadOrder['format'], (order: ReadOrder) => Promise<DatasetProfile>> = {
  csv: async ({ path }) => (await import('./dataset-csv.ts')).readCsv(path),
  jsonl: async ({ path }) => (await import('./dataset-jsonl.ts')).readJsonl(path),
  parquet: async ({ path }) => (await import('./dataset-parquet.ts')).readParquet(path),
  hf_dataset: async ({ path, directory }) => (await import('./dataset-hf.ts')).readHfDataset(path, directory),
}

/** Text as the database takes it. */
const storable = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()

async function answer(order: ReadOrder): Promise<ReadAnswer> {
  try {
    const profile = await read[order.format](order)
    if (profile.columns.length > MAX_COLUMNS) return { refused: `more than ${MAX_COLUMNS} columns` }
    const unnameable = profile.columns.findIndex(({ name }) => storable(name) !== name)
    if (unnameable !== -1) {
      return {
        refused: `the name of column ${unnameable + 1} holds the character NUL, or half a surrogate pair`,
      }
    }
    return { profile }
  } catch (err) {
    if (err instanceof DatasetRefused) return { refused: storable(err.message) }
    return { broken: err instanceof Error ? (err.stack ?? err.message) : String(err) }
  }
}

const finish = (answered: ReadAnswer) =>
  process.send?.({ ...answered, peakBytes: process.resourceUsage().maxRSS * 1024 }, () => process.exit(0))

process.once('message', (order: ReadOrder) => void answer(order).then(finish))
// The parent is gone: nobody waits for the answer.
process.once('disconnect', () => process.exit(1))
