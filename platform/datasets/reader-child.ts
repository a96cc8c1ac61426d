import { misnamedReason } from '../../domain/dataset-kind.ts'
import { isStorable } from '../../domain/storable-text.ts'
import { readStart } from './lines.ts'
import { DatasetRefused, MAX_COLUMNS, type DatasetProfile } from './profile.ts'
import type { ReadAnswer, ReadOrder } from './reader.ts'

// Reads one dataset in a process of its own, so that the memory and the crashes of native readers end with it. Each
// reader is imported only when needed, because importing all of them takes longer than reading a usual file.

const read: Record<ReadOrder['format'], (order: ReadOrder) => Promise<DatasetProfile>> = {
  csv: async ({ path }) => (await import('./csv.ts')).readCsv(path),
  jsonl: async ({ path }) => (await import('./jsonl.ts')).readJsonl(path),
  parquet: async ({ path }) => (await import('./parquet.ts')).readParquet(path),
  hf_dataset: async ({ path, directory }) => (await import('./hf.ts')).readHfDataset(path, directory),
}

/** Enough bytes to identify the kind of a file. */
const KIND_BYTES = 1024

async function answer(order: ReadOrder): Promise<ReadAnswer> {
  try {
    const profile = await read[order.format](order)
    checkColumns(profile)
    return { profile }
  } catch (err) {
    if (!(err instanceof DatasetRefused)) {
      return { broken: err instanceof Error ? (err.stack ?? err.message) : String(err) }
    }
    const start = await readStart(order.path, KIND_BYTES)
    return { refused: misnamedReason(start, order.format) ?? err.message }
  }
}

function checkColumns({ columns }: DatasetProfile): void {
  if (columns.length > MAX_COLUMNS) throw new DatasetRefused(`more than ${MAX_COLUMNS} columns`)
  const at = columns.findIndex(({ name }) => !isStorable(name))
  if (at === -1) return
  throw new DatasetRefused(`the name of column ${at + 1} holds the character NUL, or half a surrogate pair`)
}

const finish = (answered: ReadAnswer) =>
  process.send?.({ ...answered, peakBytes: process.resourceUsage().maxRSS * 1024 }, () => process.exit(0))

process.once('message', (order: ReadOrder) => void answer(order).then(finish))
// The parent has exited, so no process waits for the result.
process.once('disconnect', () => process.exit(1))
