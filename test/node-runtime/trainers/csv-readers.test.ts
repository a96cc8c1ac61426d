import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { SAMPLED } from '../../../platform/datasets/preview.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { CSV_CASES } from '../../support/builders/csv-cases.ts'
import { runQueries } from '../../support/builders/probes/query-probe.ts'
import { probeTables } from '../../support/builders/probes/table-probe.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { requireToolPython } from '../../support/servers/nodes/tools.ts'
import { pythonOf } from '../../support/servers/nodes/trainer.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

/** A reader's result: names and cells as text, or its rejection. */
type Reading = [names: string[], rows: string[][]] | string

const cellOf = (value: unknown): string => {
  const text = value === null || value === undefined || value === 'None' ? '' : `${value as string}`.trim()
  // Only the trainers read a column with decimal commas as numbers.
  const number = text.replace(',', '.')
  return text !== '' && Number.isFinite(Number(number)) ? String(Number(number)) : text
}

describe('CSV files', function () {
  this.timeout(120_000)
  let uploads: Reading[]
  let trainings: Reading[]
  let queries: Reading[]

  before(async function () {
    this.timeout(300_000)
    const python = await requireToolPython(this)
    using folder = temporaryFolder()
    uploads = await Promise.all(CSV_CASES.map(({ text }, i) => uploaded(join(folder.path, String(i)), text)))
    const tables = await probeTables(CSV_CASES.map(({ text }) => ({ text })))
    trainings = tables.map(({ columns = {}, error }) => {
      if (error) return error[1]
      const cells = Object.values(columns)
      return [
        Object.keys(columns),
        (cells[0] ?? []).map((_, row) => cells.map((column) => cellOf(column[row]))),
      ]
    })
    const results = await runQueries(python, CSV_CASES)
    queries = results.map(({ columns = [], rows = [], error }) => {
      if (error !== undefined) return error
      const names = columns.map(({ name }) => name)
      // query_table names the column that a trailing delimiter creates.
      const shown = names.filter(
        (name) => !/^column\d+$/.test(name) || rows.some((row) => row[name] !== null),
      )
      return [
        shown.map((name) => name.replace(/^column(?=\d+$)/, 'Unnamed: ')),
        rows.map((row) => shown.map((name) => cellOf(row[name]))),
      ]
    })
  })

  async function uploaded(path: string, text: string): Promise<Reading> {
    await writeFile(path, text)
    try {
      const { columns, preview, num_samples } = await readDataset({ path, format: 'csv' })
      assert.equal(preview?.rows.length, num_samples)
      return [columns.map(({ name }) => name), preview?.rows.map((row) => row.map(cellOf)) ?? []]
    } catch (err) {
      assert.equal((err as Error).name, 'DatasetRefused', String(err))
      return (err as Error).message
    }
  }

  for (const [i, { title, names, rows, refusal }] of CSV_CASES.entries()) {
    it(`with ${title} look the same to the upload, the trainers and query_table`, () => {
      if (refusal === undefined) {
        const expected = [names, rows?.map((row) => row.map(cellOf))] as const
        assert.deepEqual(
          uploads[i],
          [names, expected[1]?.map((row) => row.slice(0, SAMPLED.columns))],
          'the upload',
        )
        assert.deepEqual(trainings[i], expected, 'the trainers')
        assert.deepEqual(queries[i], expected, 'query_table')
        return
      }
      assert.equal(uploads[i], refusal)
      assert.equal(queries[i], `file_url: ${refusal}`)
    })
  }

  it('are parsed by the same program in the trainers and in query_table', () => {
    const [tool, trainers] = [
      'catalog/tools/query_table',
      'node-runtime/trainers/hearth_trainers/datasets',
    ].map((folder) => readFileSync(join(ROOT, folder, 'csv_layout.py'), 'utf8'))

    assert.equal(tool, trainers)
  })

  it('are copied for pyarrow only if spaces or delimiters are outside of quoted cells', async () => {
    using folder = temporaryFolder()
    const files: [text: string, isCopied: boolean][] = [
      ['a,b\n"He said, ""hello"", and left",1\n', false],
      ['\ufeff"a, ""b""",c\n"x,\n ""y"" ,",2\n', false],
      ['a;b\n"x; ""y"" ;\n""z""";1\n', false],
      ['a,b\n"x, ""y""", "z"\n', true],
      ['a,b\n"x, ""y""" ,z\n', true],
      ['a,b\n"x, ""y""",z,\n1,2\n', true],
      ['a,b\n5", "z"\n1,2\n', true],
      ['a,b\n"x, ""y""",1\n "z",2\n', true],
    ]
    const paths = files.map((_, i) => join(folder.path, `${i}.csv`))
    await Promise.all(files.map(([text], i) => writeFile(paths[i] ?? '', text)))
    const program = `
import sys
from pathlib import Path
from hearth_trainers.datasets.csv_reader import CsvFile
print(*(CsvFile(Path(path))._copy is not None for path in sys.argv[1:]))`

    const { stdout } = await runProgram(await pythonOf('tabular'), ['-c', program, ...paths], {
      env: pythonProcessEnv({ PYTHONPATH: join(ROOT, 'node-runtime', 'trainers') }),
    })

    assert.deepEqual(
      stdout.trim().split(' '),
      files.map(([, isCopied]) => (isCopied ? 'True' : 'False')),
    )
  })
})
