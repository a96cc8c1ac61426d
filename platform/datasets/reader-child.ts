import { misnamedReason } from '../../domain/datasets/kind.ts'
import { isStorable } from '../../domain/storable-text.ts'
import { readStart } from './lines.ts'
import { previewOf, type SampledRow } from './preview.ts'
import {
  bytesOfName,
  DatasetRefused,
  MAX_COLUMNS,
  MAX_NAMES_BYTES,
  quoted,
  type DatasetColumn,
  type DatasetProfile,
} from './profile.ts'
import type { PreviewAnswer, ReadAnswer, ReadOrder } from './reader.ts'

// Reads one dataset in its own process, which confines the memory use and crashes of native readers. Each reader is
// imported only when needed, because importing all of them takes longer than reading a typical file.

const read: Record<ReadOrder['format'], (order: ReadOrder) => Promise<DatasetProfile>> = {
  csv: async ({ path }) => (await import('./csv.ts')).readCsv(path),
  jsonl: async ({ path }) => (await import('./jsonl.ts')).readJsonl(path),
  parquet: async ({ path }) => (await import('./parquet.ts')).readParquet(path),
  hf_dataset: async ({ path, directory }) => (await import('./hf.ts')).readHfDataset(path, directory),
}

/** Reads the first rows; archives have no preview. */
const sample: Partial<
  Record<ReadOrder['format'], (order: ReadOrder, columns: readonly DatasetColumn[]) => Promise<SampledRow[]>>
> = {
  csv: async ({ path }, columns) => (await import('./csv.ts')).sampleCsv(path, columns),
  jsonl: async ({ path }, columns) => (await import('./jsonl.ts')).sampleJsonl(path, columns),
  parquet: async ({ path }, columns) => (await import('./parquet.ts')).sampleParquet(path, columns),
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
  let bytes = 0
  for (const { name } of columns) {
    bytes += bytesOfName(name)
    if (bytes <= MAX_NAMES_BYTES) continue
    throw new DatasetRefused(
      `the column names exceed the limit of 1 MB in total; shorten names such as ${quoted(name, 40)}, or store such texts as values`,
    )
  }
  const at = columns.findIndex(({ name }) => !isStorable(name))
  if (at === -1) return
  throw new DatasetRefused(`the name of column ${at + 1} holds the character NUL, or half a surrogate pair`)
}

/**
 * Sends the profile before it reads the first rows again for the preview: a failure of the preview must not affect the
 * dataset.
 */
async function serve(order: ReadOrder): Promise<void> {
  const answered = await answer(order)
  await send({ ...answered, peakBytes: process.resourceUsage().maxRSS * 1024 })
  if ('profile' in answered) {
    const { columns } = answered.profile
    const rows = await sample[order.format]?.(order, columns).catch(() => undefined)
    await send({ preview: rows ? previewOf(columns, rows) : null } satisfies PreviewAnswer)
  }
  process.exit(0)
}

const send = (message: object) => new Promise<void>((resolve) => process.send?.(message, () => resolve()))

process.once('message', (order: ReadOrder) => void serve(order))
// The parent has exited, so no process waits for the result.
process.once('disconnect', () => process.exit(1))
