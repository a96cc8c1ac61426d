import { openAsBlob, type Stats, statSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { HearthError } from '../../client/index.ts'
import type { SortedPageQuery } from '../../schemas/common.ts'
import type { Dataset } from '../../schemas/dataset.ts'
import { size } from '../amounts.ts'
import { filled, orderOption, sortOption, wholeNumber } from '../arguments.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { CliError, usageError } from '../cli-error.ts'
import { datasetId } from '../names.ts'
import { PendingUpload } from '../pending-upload.ts'
import { print, printStatus, table } from '../print.ts'
import { watching } from '../screen.ts'
import { transferLine } from '../transfer-line.ts'

type Format = Dataset['storage_format']

const FORMATS: Readonly<Record<string, Format>> = {
  '.csv': 'csv',
  '.jsonl': 'jsonl',
  '.ndjson': 'jsonl',
  '.parquet': 'parquet',
}

interface UploadOptions {
  format?: Format
  name?: string
  description?: string
}

interface ListOptions extends Pick<SortedPageQuery, 'sort' | 'order'> {
  status?: Dataset['status']
  limit: number
}

/** Commands for datasets. */
export function datasetCommands(datasets: Command): void {
  datasets
    .command('upload <file>')
    .description('create a dataset from a file; repeat the command to resume an interrupted upload')
    .addOption(
      new Option('--format <format>', 'default: inferred from the file extension').choices([
        'csv',
        'jsonl',
        'parquet',
        'hf_dataset',
      ]),
    )
    .option('--name <name>', 'name of the dataset (default: the file name)', filled)
    .option('--description <text>', 'what the dataset contains', filled)
    .action(asAccount(upload))

  datasets
    .command('ls')
    .alias('list')
    .description('list datasets, newest first by default')
    .addOption(new Option('--status <status>', 'filter by status').choices(['pending', 'ready', 'failed']))
    .addOption(sortOption())
    .addOption(orderOption())
    .option('--limit <n>', 'maximum number of datasets', wholeNumber, 50)
    .action(
      asAccount(async ({ h, json }, { limit, ...query }: ListOptions) => {
        const list = await h.datasets.list({ ...query, limit: Math.min(100, limit) }).all(limit)
        const rows = list.map((one) => [
          one.dataset_id,
          one.dataset_name,
          one.status,
          one.storage_format,
          one.num_samples,
          size(one.total_size_bytes),
          one.created_at,
          one.error_message,
        ])
        const headings = ['DATASET', 'NAME', 'STATUS', 'FORMAT', 'ROWS', 'SIZE', 'CREATED', 'ERROR']
        print({ json }, list, table(headings, rows))
      }),
    )

  datasets
    .command('head <dataset>')
    .description('show the first rows of a dataset, by its id or name')
    .option('-n, --rows <n>', 'number of rows, at most 50', wholeNumber, 10)
    .action(
      asAccount(async ({ h, json }, given: string, { rows }: { rows: number }) => {
        const found = await h.datasets.rows(await datasetId(h, given), { limit: rows })
        const headings = found.columns.map(({ name, type }) => `${name} (${type})`)
        print({ json }, found, `${table(headings, found.rows)}\n${found.num_samples} rows in total.`)
      }),
    )

  datasets
    .command('rm <dataset>')
    .description('delete a dataset, by its id or name')
    .action(
      asAccount(async ({ h, json }, given: string) => {
        const dataset = await datasetId(h, given)
        await h.datasets.delete(dataset)
        print({ json }, { dataset_id: dataset, deleted: true }, `Deleted dataset ${given}.`)
      }),
    )
}

async function upload(
  { h, baseUrl, json }: AccountContext,
  file: string,
  {
    format = FORMATS[extname(file).toLowerCase()],
    name = basename(file, extname(file)),
    description,
  }: UploadOptions,
): Promise<void> {
  const info = fileAt(file)
  if (!format)
    throw usageError(
      `${file}: cannot infer the format from the file name; pass --format csv, jsonl, parquet or hf_dataset`,
    )
  const pending = new PendingUpload({ baseUrl, path: resolve(file), info, name })
  const begin = async (resume = pending.read()): Promise<Dataset> => {
    if (resume) printStatus(`hearth: resuming the upload of dataset ${resume.dataset_id}`)
    const made = {
      dataset_name: name,
      storage_format: format,
      ...(description !== undefined && { description }),
    }
    return h.datasets.upload({
      ...(resume ? { resume } : made),
      file: await openAsBlob(file),
      filename: basename(file),
      onProgress: transferLine(basename(file)),
      onState: (state) => pending.keep(state),
    })
  }
  const dataset = await watching('upload interrupted; repeat the command to resume it.', async () => {
    try {
      return await begin()
    } catch (err) {
      // The dataset or the session of the earlier upload no longer exists.
      if (!(err instanceof HearthError && err.code === 'not_found' && pending.read())) throw err
      pending.forget()
      return begin()
    }
  })
  pending.forget()
  print(
    { json },
    dataset,
    `Dataset ${dataset.dataset_id} (${dataset.dataset_name}): ${dataset.num_samples} rows, ${size(dataset.total_size_bytes)}.`,
  )
  if (dataset.status === 'failed')
    throw new CliError(`${file} cannot be used: ${dataset.error_message ?? 'unknown reason'}`)
}

function fileAt(path: string): Stats {
  const info = statSync(path, { throwIfNoEntry: false })
  if (!info) throw usageError(`${path}: no such file`)
  if (!info.isFile()) throw usageError(`${path} is not a file`)
  return info
}
