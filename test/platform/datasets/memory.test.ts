import assert from 'node:assert/strict'
import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { reading, texts } from '../../../platform/datasets/duckdb.ts'
import { readJsonl } from '../../../platform/datasets/jsonl.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const ROWS = 60_000
const COLUMNS = [
  { name: 'id', type: 'integer' },
  { name: 'share', type: 'number' },
  { name: 'on', type: 'date' },
  { name: 'at', type: 'timestamp' },
  { name: 'text', type: 'string' },
  { name: 'tags', type: 'list' },
  { name: 'more', type: 'object' },
  { name: 'none', type: 'any' },
]
/** Less memory than DuckDB needs to buffer one file. */
const TOO_LITTLE = [
  { memoryMb: 8, threads: 2 },
  { memoryMb: 8, threads: 1 },
]

const row = (id: number) =>
  JSON.stringify({
    id,
    share: id + 0.5,
    on: '2024-01-31',
    at: '2024-01-31T10:00:00Z',
    text: `row ${id} `.repeat(60),
    tags: ['a'],
    more: { id },
    none: null,
  })

function* lines(oddLine?: number): Iterable<string> {
  for (let id = 0; id < ROWS; id++) yield id + 1 === oddLine ? '{"id":\n' : `${row(id)}\n`
}

describe("JSON Lines larger than their reader's memory", function () {
  this.timeout(240_000)
  const folder = temporaryFolder()
  const path = join(folder.path, 'data.jsonl')
  before(() => pipeline(Readable.from(lines()), createWriteStream(path)))
  after(() => folder[Symbol.dispose]())

  it('are still read, several at once, and produce the same profile', async () => {
    const [plain, ...small] = await Promise.all([
      readJsonl(path),
      readJsonl(path, TOO_LITTLE),
      readJsonl(path, TOO_LITTLE),
    ])

    assert.equal(plain.num_samples, ROWS)
    assert.deepEqual(plain.columns, COLUMNS)
    for (const profile of small) assert.deepEqual(profile, plain)
  })

  it("spill to the reader's temporary folder, not to the current one", async () => {
    const { TMPDIR } = process.env
    process.env.TMPDIR = folder.path
    try {
      const [[spillFolder] = []] = await reading(path, [{ memoryMb: 60, threads: 1 }], (db) =>
        texts(db, `select current_setting('temp_directory')`),
      )
      assert.equal(spillFolder, join(folder.path, '.duckdb'))
    } finally {
      if (TMPDIR === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = TMPDIR
    }
  })

  it('are rejected with the line number when they are malformed', async () => {
    const broken = join(folder.path, 'broken.jsonl')
    await pipeline(Readable.from(lines(ROWS - 7)), createWriteStream(broken))

    await assert.rejects(readJsonl(broken, TOO_LITTLE), {
      name: 'DatasetRefused',
      message: new RegExp(`^line ${ROWS - 7}: not valid JSON`),
    })
  })

  it('are rejected when they have no rows', async () => {
    const blank = join(folder.path, 'blank.jsonl')
    await writeFile(blank, '\n\n')

    await assert.rejects(readJsonl(blank, TOO_LITTLE), { message: /has no rows/ })
  })
})
