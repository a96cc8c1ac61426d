import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareUserSchema } from '../../../platform/schema-checks/user-schema.ts'
import {
  DAYS,
  formatDayFirst,
  houseRows,
  reviewRows,
  salesRows,
  writeCsv,
  writeJsonl,
} from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer } from '../../support/servers/nodes/trainer.ts'

const table = (rows: string[]): string => ['size,price', ...rows].join('\n')
const many = Array.from({ length: 30 }, (_, index) => `${index},${index * 2}`)

const daily = (time: (at: number) => string): string =>
  ['d,v', ...DAYS.map((at) => `${time(at)},${at % 7}`)].join('\n')

interface Refusal {
  what: string
  csv: string
  model?: string
  hyperparameters?: Record<string, unknown>
  message: RegExp
  column?: string
  row?: number
}

const REFUSALS: Refusal[] = [
  {
    what: 'a missing target column, listing the columns that exist',
    csv: table(many),
    hyperparameters: { target_column: 'prise' },
    message: /'prise'\. Its columns are: size, price\./,
    column: 'prise',
  },
  {
    what: 'text in a numeric target, naming the row',
    csv: table([...many, '31,cheap']),
    message: /Column 'price' must contain numbers, but row 31 has 'cheap'/,
    column: 'price',
    row: 31,
  },
  { what: 'too few rows', csv: table(['1,2', '2,3']), message: /has 2 rows; at least 10 are needed/ },
  {
    what: 'too few rows with a target',
    csv: table(many.map((row, index) => (index < 25 ? row.replace(/,.*/, ',') : row))),
    message: /has 5 rows after 25 without a value in 'price' were left out/,
  },
  { what: 'a table with only a header', csv: 'size,price\n', message: /no rows/ },
  { what: 'an empty file', csv: '', message: /cannot be read as csv/ },
  {
    what: 'a row with an extra value',
    csv: table([...many, '1,2,3']),
    message: /Expected 2 columns, got 3/,
  },
  {
    what: 'two columns with the same name',
    csv: 'a,a\n1,2\n',
    message: /two columns named 'a'/,
    column: 'a',
  },
  {
    what: 'no column other than the target',
    csv: `price\n${many.map((r) => r.split(',')[0]).join('\n')}`,
    message: /no column to learn from/,
  },
  {
    what: 'a target without any values',
    csv: table(many.map((row) => row.replace(/,.*/, ','))),
    message: /Column 'price' has no value in any of the 30 rows/,
    column: 'price',
  },
  {
    what: 'a word in the only feature column, naming the row and the word',
    csv: `size,price\n${many.map((row, at) => (at === 8 ? 'big,3' : row)).join('\n')}`,
    message:
      /'size' is left out: it is text with 30 different values: 29 of 30 values are numbers; row 9 is 'big'/,
  },
  {
    what: 'a single class',
    csv: table(many.map((row) => row.replace(/,.*/, ',yes'))),
    model: 'tabular-classification',
    message: /the same value in every row \('yes'\)/,
    column: 'price',
  },
  {
    what: 'a quantity used as a class',
    csv: table(Array.from({ length: 100 }, (_, index) => `${index},${index / 7}`)),
    model: 'tabular-classification',
    message: /too many for classes.*tabular-regression/,
  },
  {
    what: 'a series too short for its horizon',
    csv: table(many),
    model: 'time-series-forecast',
    hyperparameters: { horizon: 20 },
    message: /has 30 values; with 7 lags and a horizon of 20 at least 40 are needed/,
  },
  {
    what: 'a malformed time, naming the row',
    csv: daily((at) => (at === 44 ? 'soon' : formatDayFirst(at))),
    model: 'time-series-forecast',
    hyperparameters: { time_column: 'd' },
    message: /1 of 90 values in 'd' cannot be read as times, day first; the first is 'soon' in row 45/,
    column: 'd',
    row: 45,
  },
  {
    what: 'dates that could be day-first or month-first',
    csv: daily((at) => `${1 + ((at * 5) % 12)}/${1 + ((at * 7) % 11)}/2023`),
    model: 'time-series-forecast',
    hyperparameters: { time_column: 'd' },
    message:
      /may have the day or the month first, and the order of the rows depends on it \(row 1 is '1\/1\/2023'\)/,
    column: 'd',
  },
  {
    what: 'two series in one table',
    csv: `d,shop,v\n${DAYS.flatMap((at) => [`${formatDayFirst(at)},a,${at}`, `${formatDayFirst(at)},b,${-at}`]).join('\n')}`,
    model: 'time-series-forecast',
    message:
      /90 rows repeat a time in 'd' \(the first is row 2\), and 'shop' has 2 values that tell them apart/,
    column: 'shop',
    row: 2,
  },
  {
    what: 'a table without a text column',
    csv: table(many),
    model: 'text-classification',
    message: /no column with text\./,
  },
]

describe('untrainable data', () => {
  for (const { what, csv, model = 'tabular-regression', hyperparameters = {}, ...expected } of REFUSALS) {
    it(`is rejected with a message: ${what}`, async () => {
      using folder = temporaryFolder()
      const file = join(folder.path, 'data.csv')
      await writeFile(file, csv)

      const run = await runTrainer({ folder: folder.path, model, file, hyperparameters })

      assert.equal(run.code, 64)
      assert.match(run.error?.message ?? '', expected.message)
      if (expected.column) assert.equal(run.error?.column, expected.column)
      if (expected.row) assert.equal(run.error?.row, expected.row)
    })
  }

  it('is rejected with the line number of invalid JSON in a JSON Lines file', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'data.jsonl')
    await writeFile(file, '{"a":1}\n{"a":2}\n{"a":\n{"a":4}\n')

    const run = await runTrainer({ folder: folder.path, model: 'tabular-regression', format: 'jsonl', file })

    assert.match(run.error?.message ?? '', /Line 3 is not JSON/)
    assert.equal(run.error?.row, 3)
  })
})

describe('a trainer on unusual but valid data', () => {
  it('learns a constant target, with a warning', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(
      folder.path,
      houseRows(40).map((row) => ({ ...row, price: 5 })),
    )

    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      file,
      hyperparameters: { epochs: 3 },
    })

    assert.equal(run.code, 0, run.error?.message)
    assert.deepEqual(run.result.example_output.predictions, [5, 5])
    assert.ok(
      run.events.some(({ level, message }) => level === 'warning' && /same value/.test(String(message))),
    )
  })

  it('leaves out columns without information, with the reason in the log and among the metrics', async () => {
    using folder = temporaryFolder()
    const rows = houseRows(60).map((row, index) => ({ id: `house-${index}`, empty: null, ...row }))
    const file = await writeCsv(folder.path, rows)

    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      file,
      hyperparameters: { epochs: 3, ignore_columns: ['age'] },
    })

    assert.deepEqual(run.result.metrics.left_out_columns, [
      { column: 'id', reason: 'it is text with 60 different values' },
      { column: 'empty', reason: 'it has no values' },
      { column: 'age', reason: 'it is listed in ignore_columns' },
    ])
    const messages = run.events.map(({ message }) => message).join('\n')
    assert.match(messages, /'id' is left out: it is text with 60 different values\./)
    assert.match(messages, /'empty' is left out: it has no values\./)
    assert.ok(!('id' in (run.result.example_input.instances[0] ?? {})))
  })

  it('lists the first of many omitted columns in the metrics, and all of them in the log', async () => {
    using folder = temporaryFolder()
    const empty = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`${'e'.repeat(300)}${at}`, null]))
    const file = await writeJsonl(
      folder.path,
      houseRows(60).map((row) => ({ ...row, ...empty })),
    )

    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-classification',
      format: 'jsonl',
      file,
      hyperparameters: { epochs: 3, target_column: 'town' },
    })

    assert.equal(run.code, 0, run.error?.message)
    const omittedColumns = run.result.metrics.left_out_columns
    assert.deepEqual([omittedColumns.length, omittedColumns[0]?.column], [50, 'e'.repeat(200)])
    assert.equal(run.events.filter(({ message }) => /is left out/.test(String(message))).length, 60)
  })

  it('lists the columns that a text model or a forecast ignores', async () => {
    using folder = temporaryFolder()
    const texts = await writeCsv(
      folder.path,
      reviewRows(60).map((row, index) => ({ ...row, shop: index % 3 })),
      'texts.csv',
    )
    const series = await writeCsv(
      folder.path,
      salesRows(120).map((row, index) => ({ '': index, ...row })),
      'series.csv',
    )

    const text = await runTrainer({
      folder: join(folder.path, 'text'),
      model: 'text-classification',
      file: texts,
      hyperparameters: { epochs: 2 },
    })
    const forecast = await runTrainer({
      folder: join(folder.path, 'forecast'),
      model: 'time-series-forecast',
      file: series,
      hyperparameters: { epochs: 2, target_column: 'sales', horizon: 3 },
    })

    const [ignoredByText, first] = [text, forecast].map(({ result }) => result.metrics.left_out_columns)
    assert.deepEqual(ignoredByText, [{ column: 'shop', reason: "the model learns from 'text' alone" }])
    const reason = 'a forecast learns from the past values of one column alone'
    assert.deepEqual(first, [{ column: 'Unnamed: 0', reason }])
  })

  it('keeps the schema within the endpoint limit for many long text values', async () => {
    using folder = temporaryFolder()
    const columns = Array.from({ length: 150 }, (_, at) => `c${at}`)
    const long = houseRows(60).map((row, index) => ({ ...row, notes: `${index % 15}${'x'.repeat(20_000)}` }))
    const many = houseRows(60).map((row, index) => ({
      ...row,
      ...Object.fromEntries(columns.map((name) => [name, `${index % 20}${'y'.repeat(70)}`])),
    }))
    const schemaOf = async (rows: ReturnType<typeof houseRows>, name: string) => {
      const run = await runTrainer({
        folder: join(folder.path, name),
        model: 'tabular-regression',
        file: await writeCsv(folder.path, rows, `${name}.csv`),
        hyperparameters: { epochs: 2, target_column: 'price' },
      })
      prepareUserSchema(run.result.input_schema)
      const rowSchema = run.result.input_schema.properties['instances']?.items
      return rowSchema?.['properties'] as Record<string, { description?: string }>
    }

    const { notes } = await schemaOf(long, 'long')
    const { c0, town } = await schemaOf(many, 'many')

    assert.match(notes?.description ?? '', /^Seen in training: 0x{79}\.\.\., 10x{78}\.\.\., /)
    const words = 'A text that was seen in training; any other counts as missing.'
    assert.deepEqual([c0?.description, town?.description], [words, words])
  })

  it('fills gaps in a series', async () => {
    using folder = temporaryFolder()
    const rows = salesRows(120).map((row, index) => (index % 10 === 3 ? { ...row, sales: null } : row))
    const file = await writeCsv(folder.path, rows)

    const run = await runTrainer({
      folder: folder.path,
      model: 'time-series-forecast',
      file,
      hyperparameters: { epochs: 5, target_column: 'sales', horizon: 3 },
    })

    assert.equal(run.code, 0, run.error?.message)
    assert.deepEqual(run.result.metrics.warnings, [
      {
        message: "12 missing values in 'sales' are filled in between the neighbors; the first is in row 4.",
        column: 'sales',
        count: 12,
        row: 4,
      },
    ])
  })
})
