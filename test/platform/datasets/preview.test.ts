import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { previewOf, SAMPLED } from '../../../platform/datasets/preview.ts'
import type { DatasetFormat } from '../../../platform/datasets/profile.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import type { DatasetPreview } from '../../../schemas/dataset.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

async function previewOfFile(format: DatasetFormat, content: string | Uint8Array): Promise<DatasetPreview> {
  using folder = temporaryFolder()
  const path = join(folder.path, 'data')
  await writeFile(path, content)
  const { preview } = await readDataset({ path, format })
  assert.ok(preview)
  return preview
}

describe('dataset preview', () => {
  it('shows CSV values with the types of their columns', async () => {
    const { rows, columns, sampled_rows } = await previewOfFile(
      'csv',
      'i,n,b,d,s\n1,1.5,true,2024-01-31,"x, y"\n-2,NA,False,2024-02-01,\n',
    )

    assert.deepEqual(rows, [
      [1, 1.5, true, '2024-01-31', 'x, y'],
      [-2, null, false, '2024-02-01', null],
    ])
    assert.equal(sampled_rows, 2)
    const [i, n] = columns
    assert.deepEqual([i?.min, i?.max, i?.mean, i?.distinct, i?.missing], [-2, 1, -0.5, 2, 0])
    assert.deepEqual([n?.missing, n?.mean], [1, 1.5])
  })

  it('shows a dash as missing in number columns but not in text columns, and no column for a trailing delimiter', async () => {
    const { rows, columns } = await previewOfFile('csv', 'sep=;\n;a;b;\n0;-;-;\n1;4,5;+;\n2;#REF!;x;\n')

    assert.deepEqual(
      columns.map(({ name, type, missing }) => [name, type, missing]),
      [
        ['Unnamed: 0', 'integer', 0],
        ['a', 'number', 2],
        ['b', 'string', 0],
      ],
    )
    assert.deepEqual(rows, [
      [0, null, '-'],
      [1, 4.5, '+'],
      [2, null, 'x'],
    ])
  })

  it('reads negative CSV amounts as numbers', async () => {
    const { rows, columns } = await previewOfFile('csv', 'refund\n-$25.58\n-$1.5\n-$3\n')

    assert.equal(columns[0]?.type, 'number')
    assert.deepEqual(rows, [[-25.58], [-1.5], [-3]])
  })

  it('drops dots from CSV numbers when the file proves that they are thousands separators', async () => {
    const semicolons = await previewOfFile('csv', 'a;b\n1.234;x\n980;y\n')
    const commas = await previewOfFile('csv', 'a|b\n1.234|1,5\n-12.000|2,25\n')
    const points = await previewOfFile('csv', 'a;b\n1.234;0.5\n980;0.25\n')
    const open = await previewOfFile('csv', 'a,b\n1.234,x\n980,y\n')
    const odd = await previewOfFile('csv', '"a\nb";c\n1.234;x\n')

    const first = [semicolons, commas, points, open, odd].map(({ rows }) => rows[0]?.[0])
    assert.deepEqual(first, [1234, 1234, 1.234, 1.234, 1234])
    const others = await Promise.all(
      [
        'a\tb\n1.234\t12,50 €\n2.500\t7,25 €\n',
        'a;b\n1.234;$1.50\n2.500;$7.25\n',
        'a;b\n1.234;-\n2.500;12.5 %\n',
        'a|b\n1.234|1 234,5\n2.500|12,25\n',
        'a,b\n1.234,x\n1.234.567,y\n',
        'a,b\n1.234,"1,250 €"\n2.500,"3,500 €"\n',
        'a,b,c\n3.525,"959",19.36\n3.538,"11,682",19.9\n',
        'a,b\n1.234,"12,5"\n2.500,"3,25"\n',
        'a\tb\tc\n1.234\t12,5\t0.5\n2.500\t3,25\t1.5\n',
        'a|b\n1.234|"0,125"\n2.500|12\n',
        "a;b\n46.948;134'591\n7.447;980\n",
        "a;b;c\n1.234;12'500;7,5\n2.500;980;1,25\n",
        'a;b;c\n126.949;118,69;48.3984\n980;3,2;47.5\n',
        "a;b;c;d\n1.234;12,5;0.5;1'500\n2.500;7,25;1.5;7\n",
        'a;b\n1.234;x\n-1500;y\n',
      ].map((text) => previewOfFile('csv', text)),
    )
    assert.deepEqual(
      others.map(({ rows }) => rows[0]?.[0]),
      [1234, 1.234, 1.234, 1234, 1234, 1.234, 3.525, 1234, 1.234, 1234, 46.948, 1234, 126_949, 1.234, 1.234],
    )
    assert.equal(semicolons.columns[0]?.mean, 1107)
  })

  it('normalizes CSV numbers in other notations, and computes their statistics', async () => {
    const cases: [csv: string, numbers: number[]][] = [
      ['a;b\n1.234,50;x\n12.000;y\n7;z\n93.041;z\n', [1234.5, 12_000, 7, 93_041]],
      ['a;b\n9,5;x\n10;y\n-7,25;z\n', [9.5, 10, -7.25]],
      ['a,b\n$9.5,x\n"$1,200",y\n', [9.5, 1200]],
      ["a|b\n-10'250.5|x\n7|y\n", [-10_250.5, 7]],
      ['a|b\n1.234,5 €|x\n980 €|y\n', [1234.5, 980]],
      ['"a\nx"\tb\n12 %\tx\n3,5 %\ty\n', [12, 3.5]],
    ]
    for (const [csv, numbers] of cases) {
      const { rows, columns } = await previewOfFile('csv', csv)

      assert.deepEqual(
        rows.map(([value]) => value),
        numbers,
      )
      const { min, max, mean } = columns[0] ?? {}
      const sum = numbers.reduce((a, b) => a + b, 0)
      assert.deepEqual([min, max, mean], [Math.min(...numbers), Math.max(...numbers), sum / numbers.length])
    }
    const { rows } = await previewOfFile('csv', 'a;b\n1.234;x\n12 €;y\n')
    assert.deepEqual(rows, [
      ['1.234', 'x'],
      ['12 €', 'y'],
    ])
  })

  it('trims CSV text', async () => {
    const table = await previewOfFile('csv', 'a,b\n Zug,1\nZug ,2\n NA ,3\n')
    const odd = await previewOfFile('csv', '"a\n",b\n  Zug,1\nZug,2\n n/a,3\n')

    for (const { rows, columns } of [table, odd]) {
      assert.deepEqual(
        rows.map(([text]) => text),
        ['Zug', 'Zug', null],
      )
      assert.deepEqual([columns[0]?.missing, columns[0]?.common], [1, [{ value: 'Zug', count: 2 }]])
    }
  })

  it('shows nested JSON Lines values as JSON, and absent ones as missing', async () => {
    const { rows, columns } = await previewOfFile(
      'jsonl',
      '{"a":[1,2],"b":"x"}\n\n{"b":null}\n{"a":{"c":1},"b":"x"}\n',
    )

    assert.deepEqual(rows, [
      ['[1,2]', 'x'],
      [null, null],
      ['{"c":1}', 'x'],
    ])
    assert.deepEqual(columns[1]?.common, [{ value: 'x', count: 2 }])
    assert.deepEqual(
      columns.map(({ missing }) => missing),
      [1, 1],
    )
  })

  it('reads Parquet in order', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'data.parquet')
    const db = await (await DuckDBInstance.create(':memory:')).connect()
    await db.run(
      `copy (select range as id, range * 0.5 as half from range(5000)) to '${path}' (format parquet)`,
    )

    const { preview } = await readDataset({ path, format: 'parquet' })

    assert.deepEqual(preview?.rows[3], [3, 1.5])
    assert.deepEqual([preview?.sampled_rows, preview?.columns[0]?.max], [SAMPLED.rows, SAMPLED.rows - 1])
  })

  it('shows the first rows of a long file, with long text truncated', async () => {
    const long = 'x'.repeat(10_000)
    const { rows, sampled_rows } = await previewOfFile(
      'csv',
      `a,b\n${Array.from({ length: 30_000 }, (_, i) => `${i},${i === 0 ? long : 'y'}`).join('\n')}\n`,
    )

    assert.deepEqual(
      rows.map(([a]) => a),
      Array.from({ length: 50 }, (_, i) => i),
    )
    assert.equal(rows[0]?.[1], `${'x'.repeat(SAMPLED.characters)}…`)
    assert.equal(sampled_rows, SAMPLED.rows)
  })

  it('shows fewer rows when they are large, and the first columns of a wide table', () => {
    const columns = Array.from({ length: 300 }, (_, i) => ({ name: `c${i}`, type: 'string' as const }))
    const row = columns.map((_, i) => `${i}`.padEnd(SAMPLED.characters, '.'))

    const preview = previewOf(
      columns,
      Array.from({ length: 50 }, () => row),
    )

    assert.equal(preview.columns.length, SAMPLED.columns)
    assert.ok(preview.rows.length > 0 && preview.rows.length < 50)
    assert.ok(JSON.stringify(preview.rows).length <= 600_000)
  })

  it("shows as text any integers that JSON can't represent", () => {
    const { rows } = previewOf([{ name: 'id', type: 'integer' }], [['9007199254740993'], ['7']])

    assert.deepEqual(rows, [['9007199254740993'], [7]])
  })
})
