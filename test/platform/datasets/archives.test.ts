import assert from 'node:assert/strict'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { tableFromArrays, tableToIPC } from 'apache-arrow'
import { create as createTar } from 'tar'
import type { DatasetFormat } from '../../../platform/datasets/profile.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { zip, type ZipEntry } from '../../support/builders/zip.ts'

async function read(format: DatasetFormat, path: string): Promise<unknown> {
  try {
    const { num_samples, columns } = await readDataset({ path, format })
    return { rows: num_samples, ...Object.fromEntries(columns.map(({ name, type }) => [name, type])) }
  } catch (err) {
    assert.equal((err as Error).name, 'DatasetRefused', String(err))
    return (err as Error).message
  }
}

const arrow = (rows: number, layout: 'stream' | 'file' = 'stream') =>
  tableToIPC(
    tableFromArrays({
      id: Int32Array.from({ length: rows }, (_, i) => i),
      text: Array.from({ length: rows }, (_, i) => `row ${i}`),
    }),
    layout,
  )
const COLUMNS = { id: 'integer', text: 'string' }

async function parquet(select: string): Promise<Buffer> {
  using folder = temporaryFolder()
  const path = join(folder.path, 'x.parquet')
  const db = await (await DuckDBInstance.create()).connect()
  await db.run(`copy (${select}) to '${path}' (format parquet, row_group_size 2048)`)
  return await readFile(path)
}

const state = (...names: string[]) =>
  Buffer.from(JSON.stringify({ _data_files: names.map((filename) => ({ filename })), _split: 'train' }))
const saved = (folder: string, rows: number): ZipEntry[] => [
  { name: `${folder}data-00000-of-00001.arrow`, bytes: arrow(rows) },
  { name: `${folder}dataset_info.json`, bytes: Buffer.from('{}') },
  { name: `${folder}state.json`, bytes: state('data-00000-of-00001.arrow') },
]

async function readZip(...entries: ZipEntry[]): Promise<unknown> {
  using folder = temporaryFolder()
  const path = join(folder.path, 'data')
  await writeFile(path, zip(entries))
  return await read('hf_dataset', path)
}

async function readTar(files: ZipEntry[], { gzip = true, links = {} as Record<string, string> } = {}) {
  using folder = temporaryFolder()
  const root = join(folder.path, 'root')
  for (const { name, bytes } of files) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), bytes)
  }
  for (const [name, target] of Object.entries(links)) await symlink(target, join(root, name))
  const path = join(folder.path, 'data')
  await createTar({ file: path, gzip, cwd: root }, ['.'])
  return await read('hf_dataset', path)
}

describe('reading parquet', () => {
  const SELECT =
    "select range as i, range / 2.0 as n, 'x' || range as s, [range] as l, {'k': range} as o, date '2024-01-01' as d from range(10000)"

  const readBytes = async (bytes: Uint8Array) => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'data')
    await writeFile(path, bytes)
    return await read('parquet', path)
  }

  it('counts rows and types columns', async () => {
    assert.deepEqual(await readBytes(await parquet(SELECT)), {
      rows: 10_000,
      i: 'integer',
      n: 'number',
      s: 'string',
      l: 'list',
      o: 'object',
      d: 'date',
    })
  })

  it('names the column with a damaged page', async () => {
    const bytes = await parquet('select range as i, md5(range::varchar) as s from range(100000)')
    bytes.fill(0xff, 300_000, 302_000)

    assert.match(String(await readBytes(bytes)), /^column "(i|s)": /)
  })

  it('rejects other formats, truncated files and files without rows', async () => {
    const bytes = await parquet(SELECT)

    assert.match(
      String(await readBytes(Buffer.from('a,b\n1,2\n'))),
      /^the file is not Parquet: it does not begin/,
    )
    const cut = String(await readBytes(bytes.subarray(0, -100)))
    assert.match(
      cut,
      /^the file is not Parquet: it does not begin and end like a Parquet file; was it truncated\?$/,
    )
    assert.match(String(await readBytes(Buffer.alloc(0))), /^the file is not Parquet/)
    assert.match(String(await readBytes(await parquet('select 1 as a where false'))), /no rows/)
  })
})

describe('reading hf_dataset', () => {
  it('reads a saved dataset from a zip and from a tar.gz', async () => {
    const files = saved('my-data/', 2500)

    assert.deepEqual(await readZip(...files), { rows: 2500, ...COLUMNS })
    assert.deepEqual(await readTar(files), { rows: 2500, ...COLUMNS })
    assert.deepEqual(await readTar(files, { gzip: false }), { rows: 2500, ...COLUMNS })
  })

  it('adds up the splits of a saved dataset', async () => {
    const files = [...saved('d/train/', 100), ...saved('d/test/', 20)]

    assert.deepEqual(await readZip(...files), { rows: 120, ...COLUMNS })
  })

  it('counts only the data files that the dataset names', async () => {
    const cache = { name: 'd/cache-0123.arrow', bytes: arrow(77) }

    assert.deepEqual(await readTar([...saved('d/', 10), cache]), { rows: 10, ...COLUMNS })
  })

  it('reads both Arrow layouts', async () => {
    assert.deepEqual(await readZip({ name: 'a.arrow', bytes: arrow(10, 'file') }), { rows: 10, ...COLUMNS })
  })

  it('reads parquet files', async () => {
    const half = await parquet("select range::integer as id, 'x' as text from range(500)")

    const found = await readZip(
      { name: 'data/train-0.parquet', bytes: half },
      { name: 'data/test-0.parquet', bytes: half },
    )

    assert.deepEqual(found, { rows: 1000, ...COLUMNS })
  })

  it('skips metadata left by archivers on other systems', async () => {
    const files = [...saved('d/', 10), { name: '__MACOSX/d/._data.arrow', bytes: Buffer.from('x') }]

    assert.deepEqual(await readZip(...files), { rows: 10, ...COLUMNS })
  })

  it('names the file and column that do not match', async () => {
    const odd = tableToIPC(tableFromArrays({ id: ['a'], text: ['b'] }), 'stream')

    const answer = await readZip({ name: 'a.arrow', bytes: arrow(5) }, { name: 'b.arrow', bytes: odd })

    assert.equal(answer, 'column "id" differs between "a.arrow" and "b.arrow"')
  })

  const refused: [string, () => Promise<unknown>, RegExp][] = [
    [
      'an archive without data',
      () => readZip({ name: 'readme.txt', bytes: Buffer.from('x') }),
      /neither .arrow nor .parquet/,
    ],
    ['a dataset without rows', () => readZip(...saved('d/', 0)), /no rows/],
    [
      'a damaged data file',
      () => readZip({ name: 'd/x.arrow', bytes: Buffer.from(arrow(1000)).fill(7, 8, 200) }),
      /^"d\/x.arrow": /,
    ],
    [
      'a truncated data file',
      () => readZip({ name: 'x.arrow', bytes: arrow(1000).subarray(0, 3000) }),
      /^"x.arrow": /,
    ],
    [
      'a zip entry whose name escapes the archive',
      () => readZip({ name: '../../etc/x.arrow', bytes: arrow(1) }),
      /relative path|outside/,
    ],
    [
      'a zip entry with an absolute name',
      () => readZip({ name: '/etc/x.arrow', bytes: arrow(1) }),
      /absolute path|outside/,
    ],
    [
      'a link in a zip',
      () => readZip({ name: 'x.arrow', bytes: Buffer.from('/etc/passwd'), mode: 0o120777 }),
      /is a link/,
    ],
    ['a link in a tar', () => readTar(saved('d/', 1), { links: { 'x.arrow': '/etc/passwd' } }), /is a link/],
    [
      'a zip bomb',
      () => readZip({ name: 'x.arrow', bytes: Buffer.alloc(300 << 20) }),
      /unpacks to more than/,
    ],
    [
      'a zip bomb that lies about its size',
      () => readZip({ name: 'x.arrow', bytes: Buffer.alloc(40 << 20), claimedSize: 100 }),
      /damaged.*(size|bytes)/,
    ],
    [
      'too many files',
      () => readZip(...Array.from({ length: 10_001 }, (_, i) => ({ name: `${i}`, bytes: Buffer.alloc(0) }))),
      /more than 10000 files/,
    ],
  ]
  for (const [title, attempt, expected] of refused) {
    it(`rejects ${title}`, async () => assert.match(String(await attempt()), expected))
  }

  it("rejects files that aren't archives, and damaged archives", async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'data')
    const whole = zip(saved('d/', 10))
    for (const [bytes, expected] of [
      [Buffer.from('a,b\n1,2\n'), /neither a zip nor a tar.gz/],
      [Buffer.alloc(0), /neither a zip nor a tar.gz/],
      [whole.subarray(0, whole.length - 30), /damaged/],
      [Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.from('nothing that unzips')]), /damaged/],
    ] as const) {
      await writeFile(path, bytes)
      assert.match(String(await read('hf_dataset', path)), expected)
    }
  })
})
