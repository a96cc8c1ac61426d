import { readFile, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { walkArchive, type ArchiveFile } from './archive.ts'
import { readArrow } from './arrow.ts'
import { readParquet } from './parquet.ts'
import { DatasetRefused, quoted, type DatasetColumn, type DatasetProfile } from './profile.ts'

const MAX_STATE_BYTES = 1024 * 1024

interface DataFile extends DatasetProfile {
  name: string
}

/**
 * Profiles an archive of a saved Hugging Face dataset (`save_to_disk`, one split or several) or of Parquet files. All
 * data files must have the same columns, and the rows of all of them count. Files are unpacked one at a time into
 * `directory`.
 */
export async function readHfDataset(path: string, directory: string): Promise<DatasetProfile> {
  const files: DataFile[] = []
  /** For each folder, the data files that its `state.json` names; other files are left over from earlier steps. */
  const named = new Map<string, Set<string>>()
  const unpacked = join(directory, 'entry')

  await walkArchive(path, async (file) => {
    const kind = kindOf(file.name)
    if (!kind) return
    if (kind === 'state' && file.sizeBytes > MAX_STATE_BYTES) return
    await file.saveTo(unpacked)
    if (kind === 'state') named.set(posix.dirname(file.name), await dataFilesOf(file, unpacked))
    else files.push({ name: file.name, ...(await readOne(kind, file.name, unpacked)) })
    await rm(unpacked)
  })
  return combine(
    files.filter(({ name }) => named.get(posix.dirname(name))?.has(posix.basename(name)) ?? true),
  )
}

function kindOf(name: string): 'arrow' | 'parquet' | 'state' | undefined {
  const hidden = name.split('/').some((part) => part === '__MACOSX' || /^\.[^.]/.test(part))
  if (hidden) return undefined
  if (posix.basename(name) === 'state.json') return 'state'
  return name.endsWith('.arrow') ? 'arrow' : name.endsWith('.parquet') ? 'parquet' : undefined
}

async function readOne(kind: 'arrow' | 'parquet', name: string, path: string): Promise<DatasetProfile> {
  try {
    return await (kind === 'arrow' ? readArrow(path) : readParquet(path))
  } catch (err) {
    if (err instanceof DatasetRefused) {
      throw new DatasetRefused(`${quoted(name)}: ${err.message}`, { cause: err })
    }
    throw err
  }
}

async function dataFilesOf({ name }: ArchiveFile, path: string): Promise<Set<string>> {
  let state: unknown
  try {
    state = JSON.parse(await readFile(path, 'utf8'))
  } catch (err) {
    throw new DatasetRefused(`${quoted(name)} is not JSON`, { cause: err })
  }
  const files =
    typeof state === 'object' && state !== null && '_data_files' in state ? state._data_files : undefined
  if (!Array.isArray(files)) throw new DatasetRefused(`${quoted(name)} does not list its data files`)
  return new Set(files.map((file: { filename?: unknown } | null) => String(file?.filename)))
}

function combine(files: readonly DataFile[]): DatasetProfile {
  const [first, ...others] = files
  if (!first) {
    throw new DatasetRefused(
      'the archive contains no saved dataset: it has neither .arrow nor .parquet files',
    )
  }
  for (const other of others) {
    const odd = difference(first.columns, other.columns)
    if (odd) {
      throw new DatasetRefused(
        `column ${quoted(odd)} differs between ${quoted(first.name)} and ${quoted(other.name)}`,
      )
    }
  }
  const rows = files.reduce((sum, file) => sum + file.num_samples, 0)
  if (rows === 0) throw new DatasetRefused('the dataset has no rows')
  const decoded_bytes = files.reduce((sum, file) => sum + file.decoded_bytes, 0)
  return { num_samples: rows, columns: first.columns, decoded_bytes }
}

/** Returns the first column that isn't in both with the same type; an empty column matches any type. */
function difference(ours: readonly DatasetColumn[], theirs: readonly DatasetColumn[]): string | undefined {
  const types = new Map(theirs.map(({ name, type }) => [name, type]))
  for (const { name, type } of ours) {
    const other = types.get(name)
    if (other !== type && other !== 'any' && type !== 'any') return name
    if (!types.delete(name)) return name
  }
  return types.keys().next().value
}
