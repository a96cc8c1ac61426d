import { open } from 'node:fs/promises'
import { type Data, type DataType, RecordBatchReader, Type } from 'apache-arrow'
import { decodedBytes, DatasetRefused, type ColumnType, type DatasetProfile } from './profile.ts'

/** Profiles an Arrow file batch by batch, in either layout that Hugging Face and others write: file or stream. */
export async function readArrow(path: string): Promise<DatasetProfile> {
  await using file = await open(path)
  try {
    const reader = await RecordBatchReader.from(file)
    await reader.open()
    const columns = reader.schema.fields.map(({ name, type }) => ({ name, type: columnType(type) }))
    let [rows, bytes] = [0, 0]
    for await (const batch of reader) {
      rows += batch.numRows
      for (const child of batch.data.children) bytes += sizeOf(child)
    }
    return { num_samples: rows, columns, decoded_bytes: decodedBytes(rows, columns.length, bytes) }
  } catch (err) {
    const reason = err instanceof Error ? err.message : String(err)
    throw new DatasetRefused(`not a readable Arrow file: ${reason.slice(0, 200)}`, { cause: err })
  }
}

/** Returns the bytes of a column in a batch with every value expanded, even if the file stores it once for all rows. */
function sizeOf(data: Data): number {
  if (!data.dictionary) return data.byteLength
  const lengths: number[] = data.dictionary.data.flatMap(({ valueOffsets, length, byteLength }) =>
    Array.from({ length }, (_, i) =>
      valueOffsets ? Number(valueOffsets[i + 1]) - Number(valueOffsets[i]) : byteLength / length,
    ),
  )
  let sum = 0
  for (const key of data.values as Iterable<number | bigint>) sum += lengths[Number(key)] ?? 0
  return sum
}

const TYPES: Partial<Record<Type, ColumnType>> = {
  [Type.Int]: 'integer',
  [Type.Float]: 'number',
  [Type.Decimal]: 'number',
  [Type.Bool]: 'boolean',
  [Type.Utf8]: 'string',
  [Type.LargeUtf8]: 'string',
  [Type.Date]: 'date',
  [Type.Timestamp]: 'timestamp',
  [Type.Binary]: 'binary',
  [Type.LargeBinary]: 'binary',
  [Type.FixedSizeBinary]: 'binary',
  [Type.List]: 'list',
  [Type.FixedSizeList]: 'list',
  [Type.Struct]: 'object',
  [Type.Map]: 'object',
  [Type.Union]: 'any',
  [Type.Null]: 'any',
}

function columnType(type: DataType): ColumnType {
  // A dictionary only determines how its values are stored.
  const stored = 'dictionary' in type ? (type.dictionary as DataType) : type
  return TYPES[stored.typeId] ?? 'string'
}
