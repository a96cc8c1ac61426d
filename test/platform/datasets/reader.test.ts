import assert from 'node:assert/strict'
import { readFileSync, readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatasetFormat } from '../../../platform/datasets/profile.ts'
import { boundsOf, type ReadBounds, readDataset } from '../../../platform/datasets/reader.ts'
import { ownNamespaces } from '../../../platform/processes/own-namespaces.ts'
import { treeOf } from '../../../platform/processes/process-tree.ts'
import { until } from '../../support/assertions/until.ts'
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

const LATIN1 = Buffer.from([0x61, 0xe9, 0x0a])
const MANY = 30_000
const rows = (row: (i: number) => string, count = MANY) =>
  Array.from({ length: count }, (_, i) => row(i)).join('\n')
const json = (i: number) => `{"id":${i},"text":"row ${i}"}`
const csv = (i: number) => `${i},"row, ""${i}"""`

describe('reading csv', () => {
  const good: [string, string | Uint8Array, object][] = [
    [
      'types every column',
      'i,n,b,d,t,s,e\n1,1.5,true,2024-01-31,2024-01-31 10:00:00,x,\n-2,2,false,2024-02-01,2024-01-31T10:00:00Z,1,\n',
      { rows: 2, i: 'integer', n: 'number', b: 'boolean', d: 'date', t: 'timestamp', s: 'string', e: 'any' },
    ],
    ['recognizes a byte order mark', '\ufeffa,b\n1,2\n', { rows: 1, a: 'integer', b: 'integer' }],
    ['accepts CRLF', 'a,b\r\n1,x\r\n2,y\r\n', { rows: 2, a: 'integer', b: 'string' }],
    ['accepts a last line without a line ending', 'a\n1\n2', { rows: 2, a: 'integer' }],
    [
      'accepts newlines, commas and quotes inside quotes',
      'a,b\n1,"x\ny, ""z"""\n2,w\n',
      { rows: 2, a: 'integer', b: 'string' },
    ],
    ['skips blank lines', 'a,b\n1,2\n\n3,4\n', { rows: 2, a: 'integer', b: 'integer' }],
    ['detects semicolons', 'a;b\n1;2,5\n', { rows: 1, a: 'integer', b: 'number' }],
    [
      'accepts semicolons when commas may be decimal commas',
      'a;b;c,d\n1;2;3,4\n',
      { rows: 1, a: 'integer', b: 'integer', 'c,d': 'number' },
    ],
    [
      'recognizes dates after spaces',
      'a, b, c\n1, 2024-01-31, 2024-01-31 10:00\n',
      { rows: 1, a: 'integer', b: 'date', c: 'timestamp' },
    ],
    ['finds tabs', 'a\tb\n1\t2\n', { rows: 1, a: 'integer', b: 'integer' }],
    ['keeps names that differ only in case', 'a,A\n1,x\n', { rows: 1, a: 'integer', A: 'string' }],
    [
      'keeps names with quotes, spaces and keywords',
      '"a ""b""",select,x y\n1,2,3\n',
      { rows: 1, 'a "b"': 'integer', select: 'integer', 'x y': 'integer' },
    ],
    [
      'uses every row to infer the types',
      `a,b\n${rows((i) => `${i},${i}`)}\n1.5,word\n`,
      { rows: MANY + 1, a: 'number', b: 'string' },
    ],
    [
      'agrees with the trainers on which values are missing',
      'a,b,c\n1,NA,null\nN/A,"?",\nNaN,2.5,NULL\n',
      { rows: 3, a: 'integer', b: 'number', c: 'any' },
    ],
    [
      'names a pandas index column and unnamed inner columns as pandas does',
      ',a,,Unnamed: 2\n0,5,x,1\n1,6,y,2\n',
      { rows: 2, 'Unnamed: 0': 'integer', a: 'integer', 'Unnamed: 2_': 'string', 'Unnamed: 2': 'integer' },
    ],
    [
      'drops the column after a trailing delimiter',
      'a;b;\n1;2;\n3;4;\n',
      { rows: 2, a: 'integer', b: 'integer' },
    ],
    [
      'accepts the delimiter line that Excel writes',
      'sep=;\r\na;b\r\n1;2,5\r\n',
      { rows: 1, a: 'integer', b: 'number' },
    ],
    [
      "accepts Excel's delimiter line after a byte order mark, with any delimiter",
      '\ufeff"sep=|"\na,b|c\n1|x\n',
      { rows: 1, 'a,b': 'integer', c: 'string' },
    ],
    [
      'reads numbers with currency symbols, percent signs and thousands separators',
      'a|b|c|d|e|f\n$1,200|12 %|1.234,5|1 234|5\u00a0€|1,234\n$3.50|3.5 %|7|2|7,5\u202f€|999\n',
      { rows: 2, a: 'number', b: 'number', c: 'number', d: 'number', e: 'number', f: 'string' },
    ],
    [
      'counts a dash as missing among numbers and as text among text',
      'a,b,c,d\n1,+,2024-01-31,-\n-,-,.,-\n 2 ,+,n.a.,-\n',
      { rows: 3, a: 'integer', b: 'string', c: 'date', d: 'any' },
    ],
    [
      'falls back to text when a word appears late in a column of numbers in another notation',
      `a;b\n${rows((i) => `${i},5;$1,00${i % 10}`)}\nx;$2\n`,
      { rows: MANY + 1, a: 'string', b: 'number' },
    ],
    ['treats numbers with leading zeros like other integers', 'zip\n01234\n', { rows: 1, zip: 'integer' }],
  ]
  for (const [title, content, expected] of good) {
    it(title, async () => assert.deepEqual(await read('csv', content), expected))
  }

  const bad: [string, string | Uint8Array, RegExp][] = [
    ['an empty file', '', /^the file is empty$/],
    ['a header without rows', 'a,b\n', /a header and no rows/],
    ['a blank header', '\n1,2\n', /^line 1: blank/],
    ['a duplicate header name', 'a,b,a\n1,2,3\n', /^line 1: columns 1 and 3 are both named "a"/],
    [
      'a row with too few fields',
      `a,b\n${rows(csv)}\n1\n${rows(csv)}\n`,
      /^line 30002: 1 fields where the header has 2/,
    ],
    ['a row with too many fields', 'a,b\n1,2\n1,2,3\n', /^line 3: 3 fields/],
    ['the line where a record starts', 'a,b\n1,"x\ny\nz"\n2\n', /^line 5: 1 fields/],
    ['a quote that is never closed', 'a,b\n1,2\n3,"4\n', /^line 3: a quote is opened/],
    ['text after a closing quote', 'a,b\n1,"2"3\n', /^line 2: text after the closing quote/],
    ['bytes that are not UTF-8', Buffer.concat([Buffer.from('a\nok\n'), LATIN1]), /^line 3: not valid UTF-8/],
    ['UTF-16', Buffer.from('\ufeffa,b\n1,2\n', 'utf16le'), /UTF-16/],
    ['inconsistent line endings', 'a,b\n1,2\n3,4\r\n5,6\n', /^line 3: ends in CRLF/],
    ['a row of more than 8 MB', `a,b\n1,2\n3,${'x'.repeat(9 << 20)}\n`, /^line 3: longer than 8 MB/],
  ]
  for (const [title, content, expected] of bad) {
    it(`reports ${title}`, async () => assert.match(String(await read('csv', content)), expected))
  }
})

describe('reading csv with thousands of columns', () => {
  const cells = [
    '7',
    '1.5',
    'true',
    '2024-01-31',
    '2024-01-31 10:00:00',
    '"a, ""b""\nc"',
    '#N/A',
    '-',
    '4,5',
    '1,234',
  ]
  const types = 'integer number boolean date timestamp string any any number string'.split(' ')
  const columns = Array.from({ length: 2_000 }, (_, i) => i % cells.length)
  const wide = (row: (cell: number) => string | undefined) => columns.map((cell) => row(cell)).join(';')
  const header = columns.map((_, i) => `c${i}`).join(';')

  it('infers the same types as with only a few columns', async () => {
    const content = `sep=;\r\n${header}\r\n${wide((cell) => cells[cell])}\r\n${wide(() => '')}\r\n`

    const found = (await read('csv', content)) as Record<string, unknown>
    const few = await read('csv', `${'abcdefghij'.split('').join(';')}\n${cells.join(';')}\n`)

    assert.equal(found['rows'], 2)
    assert.deepEqual(
      columns.map((_, i) => found[`c${i}`]),
      columns.map((cell) => types[cell]),
    )
    assert.deepEqual(Object.values(few as object).slice(1), types)
  })

  it('reads them once: the time grows linearly with the number of columns, not quadratically', async () => {
    const names = Array.from({ length: 10_000 }, (_, i) => `c${i}`).join(',')
    const line = `${Array.from({ length: 10_000 }, (_, i) => i % 10).join(',')}\n`
    using folder = temporaryFolder()
    const path = join(folder.path, 'data')
    await writeFile(path, `${names}\n${line.repeat(60)}`)

    // Reading a hundred columns at a time took 36 seconds of CPU time.
    const bounds: ReadBounds = { memoryMb: 2_048, ms: 60_000 }
    const { num_samples, columns: found } = await readDataset({ path, format: 'csv' }, { bounds })

    assert.deepEqual([num_samples, found.length, found.at(-1)?.type], [60, 10_000, 'integer'])
  })

  it('reports the line of a row with a different number of columns, and of a quote that is never closed', async () => {
    const row = `${columns.map(() => 1).join(';')}\n`

    assert.match(
      String(await read('csv', `${header}\n${row}${row}1;2\n`)),
      /^line 4: 2 fields where the header has 2000/,
    )
    assert.match(
      String(await read('csv', `${header}\n${row}"${row.repeat(5)}`)),
      /^line 3: a quote is opened/,
    )
  })
})

describe('reading jsonl', () => {
  const good: [string, string, object][] = [
    [
      'types every column',
      '{"i":1,"n":1.5,"b":true,"s":"x","l":[1],"o":{"k":1},"z":null}\n{"i":2}\n',
      { rows: 2, i: 'integer', n: 'number', b: 'boolean', s: 'string', l: 'list', o: 'object', z: 'any' },
    ],
    [
      'keeps keys that differ only in case, and keys with numbers',
      '{"a":1,"A":2,"x_1":true}\n',
      { rows: 1, a: 'integer', A: 'any', x_1: 'boolean' },
    ],
    ['recognizes a byte order mark', '\ufeff{"a":1}\r\n{"a":2.5}', { rows: 2, a: 'number' }],
    ['joins rows with different keys', '{"a":1}\n{"b":"x"}\n', { rows: 2, a: 'integer', b: 'string' }],
    [
      'accepts CRLF, blank lines and a last line without a line ending',
      '{"a":1}\r\n\r\n  \n {"a":2}',
      { rows: 2, a: 'integer' },
    ],
    ['accepts NaN as Python writes it', '{"a":NaN}\n{"a":-Infinity}\n', { rows: 2, a: 'number' }],
    ['leaves commas inside strings alone', '{"a":"x,}"}\n{"a":",]"}\n', { rows: 2, a: 'string' }],
    ['types a column of mixed types as any', '{"a":1}\n{"a":{"b":1}}\n', { rows: 2, a: 'any' }],
  ]
  for (const [title, content, expected] of good) {
    it(title, async () => assert.deepEqual(await read('jsonl', content), expected))
  }

  const bad: [string, string | Uint8Array, RegExp][] = [
    ['an empty file', '', /^the file has no rows/],
    ['blank lines only', '\n  \n\n', /^the file has no rows/],
    ['invalid JSON', `${rows(json)}\n{"id":\n${rows(json)}\n`, /^line 30001: not valid JSON/],
    ['the first of several errors', '{"a":1}\nx\n{"a":2}\ny\n', /^line 2: /],
    ['text after an object', '{"a":1} {"a":2}\n', /^line 1: not valid JSON/],
    ['an object that spans two lines', '{"a":1}\n{"a":\n2}\n', /^line 2: not valid JSON/],
    ['a trailing comma', '{"a":1}\n{"a":[1,2, ]}\n', /^line 2: not valid JSON/],
    ['an array', '{"a":1}\n[1]\n', /^line 2: not a JSON object but an array/],
    ['a number', '{"a":1}\n\n42\n', /^line 3: not a JSON object but "42"/],
    ['a null', 'null\n', /^line 1: not a JSON object but "null"/],
    [
      'bytes that are not UTF-8',
      Buffer.concat([Buffer.from('{"a":1}\n{"a":"'), LATIN1]),
      /^line 2: not valid UTF-8/,
    ],
    ['half of a surrogate pair', '{"a":"\\ud800"}\n', /^line 1: not valid JSON \(half of a surrogate pair/],
    ['UTF-16', Buffer.from('{"a":1}\n', 'utf16le'), /^line 1: not UTF-8/],
    ['a row of more than 8 MB', `{"a":1}\n{"a":"${'x'.repeat(9 << 20)}"}\n`, /^line 2: longer than 8 MB/],
    ['a row of more than 40 MB', `{"a":1}\n{"a":"${'x'.repeat(40 << 20)}"}\n`, /^line 2: longer than 8 MB/],
    ['one pretty-printed array', '[\n  {"a": 1}\n]\n', /^line 1: not valid JSON/],
  ]
  for (const [title, content, expected] of bad) {
    it(`reports ${title}`, async () => assert.match(String(await read('jsonl', content)), expected))
  }

  it('accepts long rows, the last one with or without a line break', async () => {
    const long = rows((i) => `{"id":${i},"text":"${'x'.repeat(7_900_000)}"}`, 3)
    for (const end of ['', '\n']) {
      assert.deepEqual(await read('jsonl', long + end), { rows: 3, id: 'integer', text: 'string' })
    }
  })

  it('stops along with its process when it is aborted', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'data')
    await writeFile(path, `${rows(json, 200_000)}\nx\n`)
    const abort = new AbortController()

    const reading = readDataset({ path, format: 'jsonl' }, { signal: abort.signal })
    setTimeout(() => abort.abort(), 100)

    await assert.rejects(reading, { name: 'AbortError' })
  })
})

describe('the reader process', () => {
  const folder = temporaryFolder()
  const path = join(folder.path, 'data')
  before(() =>
    writeFile(
      path,
      // On a quiet machine, reading this takes twice as long as the interval between two memory checks.
      rows((i) => `{"id":${i},"text":"${'x'.repeat(1_000)}"}`, 300_000),
    ),
  )
  after(() => folder[Symbol.dispose]())
  const readWithin = (bounds: ReadBounds) => readDataset({ path, format: 'jsonl' }, { bounds })

  it('inherits only the paths to programs and temporary files, and runs in its own namespaces', async function () {
    if (process.platform !== 'linux') {
      this.runnable().title += ' (skipped: processes are inspected only on Linux)'
      this.skip()
    }
    const before = { ...process.env }
    const [DATABASE_URL, HEARTH_ENCRYPTION_KEYS] = ['postgres://a-secret', 'another-secret']
    Object.assign(process.env, { DATABASE_URL, HEARTH_ENCRYPTION_KEYS })
    const abort = new AbortController()
    try {
      const reading = readDataset({ path, format: 'jsonl' }, { signal: abort.signal })
      const stopped = assert.rejects(reading, { name: 'AbortError' })
      let found: Awaited<ReturnType<typeof readerOfThis>>
      await until(async () => (found = await readerOfThis()) !== undefined)
      const isApart = ['user', 'pid', 'net'].map(
        (kind) => namespaceOf(found?.pid, kind) !== namespaceOf('self', kind),
      )
      abort.abort()
      await stopped

      const canBeApart = (await ownNamespaces()).length > 0
      assert.deepEqual(isApart, [canBeApart, canBeApart, canBeApart])
      const names = (found?.environment ?? '').split('\0').flatMap((line) => line.split('=')[0] || [])
      const needed = ['PATH', 'TMPDIR', 'NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE']
      assert.ok(names.includes('PATH'))
      assert.deepEqual(
        names.filter((name) => !needed.includes(name)),
        [],
      )
    } finally {
      process.env = before
    }
  })

  it('is killed when it exceeds its memory limit, with a rejection that says so', async () => {
    await assert.rejects(readWithin({ memoryMb: 20, ms: 60_000 }), {
      name: 'DatasetRefused',
      message: /^the file cannot be read within the limits: it used \d+ MB of memory; its limit is 20 MB$/,
    })
  })

  it('has a time limit that grows with its file, so that a small file does not delay others', () => {
    const MB = 1024 * 1024
    const times = [0, 3, 100, 260, 5_000].map((mb) => boundsOf(mb * MB).ms / 60_000)
    assert.deepEqual(times, [2, 2.15, 7, 15, 15])
  })

  it('is killed when it exceeds its time limit, with a rejection that says so', async () => {
    await assert.rejects(readWithin({ memoryMb: 2_000, ms: 60 }), {
      name: 'DatasetRefused',
      message: 'the file cannot be read within the limits: it took longer than 0.001 minutes',
    })
  })
})

const namespaceOf = (pid: number | 'self' | undefined, kind: string): string =>
  readlinkSync(`/proc/${pid}/ns/${kind}`)

/** Returns the reader process that this process started, and its environment. */
async function readerOfThis(): Promise<{ pid: number; environment: string } | undefined> {
  for (const pid of await treeOf(process.pid)) {
    try {
      const [program = '', ...rest] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      const isReader = !program.endsWith('unshare') && rest.some((word) => word.endsWith('reader-child.ts'))
      if (isReader) return { pid, environment: readFileSync(`/proc/${pid}/environ`, 'utf8') }
    } catch {
      // The process has since exited.
    }
  }
  return undefined
}
