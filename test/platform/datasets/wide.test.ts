import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import type { DatasetFormat } from '../../../platform/datasets/profile.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

/** Reads bytes as a format; returns rows and columns, or the rejection. */
async function read(format: DatasetFormat, content: string | Uint8Array): Promise<unknown> {
  using folder = temporaryFolder()
  const path = join(folder.path, 'data')
  await writeFile(path, content)
  try {
    const { num_samples, columns } = await readDataset({ path, format })
    return { rows: num_samples, ...Object.fromEntries(columns.map(({ name, type }) => [name, type])) }
  } catch (err) {
    assert.equal((err as Error).name, 'DatasetRefused', String(err))
    return (err as Error).message
  }
}

describe('reading wide files', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `c${i}`)
  const jsonRow = (count: number) => JSON.stringify(Object.fromEntries(names(count).map((name) => [name, 1])))

  it('accepts a thousand columns', async () => {
    const row = names(1000).map((_, i) => (i % 2 ? 'x' : '1'))
    const wide = [names(1000), row, row].map((fields) => fields.join(',')).join('\n')

    const inCsv = (await read('csv', wide)) as Record<string, unknown>
    const inJson = (await read('jsonl', jsonRow(1000))) as Record<string, unknown>

    assert.deepEqual([inCsv.rows, inCsv.c998, inCsv.c999], [2, 'integer', 'string'])
    assert.equal(Object.keys(inJson).length, 1001)
  })

  it('rejects more than ten thousand columns', async () => {
    const csv = `${names(10_001).join(',')}\n`

    assert.match(String(await read('csv', csv)), /^line 1: more than 10000 columns/)
    assert.match(String(await read('jsonl', jsonRow(10_001))), /^more than 10000 columns/)
    assert.match(
      String(await read('csv', `${'x'.repeat(2 << 20)}\n1\n`)),
      /^line 1: .* exceed the limit of 1 MB/,
    )
  })

  describe('with long column names', () => {
    const limit = /^the column names exceed the limit of 1 MB in total; shorten names such as "/
    const long = (count: number, chars: number, row = 0) =>
      Array.from({ length: count }, (_, i) => `${row}_${i}_`.padEnd(chars, 'x'))
    const object = (keys: readonly string[]) =>
      JSON.stringify(Object.fromEntries(keys.map((key) => [key, 1])))

    it('rejects more than 1 MB of names, in one jsonl row or in several', async () => {
      const inRows = [0, 1, 2, 3].map((row) => object(long(100, 3_000, row))).join('\n')
      // Another reader handles files with a byte order mark, line by line.
      const inTwoBytes = object(long(100, 6_000).map((name) => name.replaceAll('x', '°')))
      for (const content of [object(long(200, 6_000)), inTwoBytes, inRows, `\ufeff${inRows}`]) {
        const refusal = String(await read('jsonl', content))
        assert.match(refusal, limit)
        assert.ok(refusal.length < 250, refusal)
      }
    })

    it('counts names as JSON encodes them, so control characters count six times', async () => {
      const names = long(100, 2_500).map((name) => name.replaceAll('x', '\u0001'))

      assert.match(String(await read('jsonl', object(names))), limit)
      assert.match(String(await read('csv', `${names.join(',')}\n${names.map(() => 1).join(',')}\n`)), limit)
    })

    it('rejects them in parquet, and accepts names just below the limit in every format', async () => {
      assert.match(String(await read('parquet', await parquetOf(long(200, 6_000)))), limit)

      const most = long(100, 10_000)
      const accepted = [
        await read('parquet', await parquetOf(most)),
        await read('jsonl', object(most)),
        await read('csv', `${most.join(',')}\n${most.map(() => 1).join(',')}\n`),
      ]

      for (const found of accepted) assert.equal(Object.keys(found as object).length, 101, String(found))
    })
  })
})

/** Writes a one-row Parquet file with these columns. */
async function parquetOf(names: readonly string[]): Promise<Buffer> {
  using folder = temporaryFolder()
  const path = join(folder.path, 'data.parquet')
  const instance = await DuckDBInstance.create(':memory:')
  const db = await instance.connect()
  await db.run(
    `copy (select ${names.map((name) => `1 as "${name}"`).join(', ')}) to '${path}' (format parquet)`,
  )
  db.closeSync()
  instance.closeSync()
  return readFileSync(path)
}
