import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MARKS } from '../../../platform/datasets/csv-values.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { DAYS, formatDayFirst, reviewRows, writeCsv, writeJsonl } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, treesOf } from '../../support/servers/nodes/trainer.ts'

describe('a trainer that reads data differently from how it was written', () => {
  it('sorts times in any notation, and reports this in the run', async () => {
    using folder = temporaryFolder()
    const train = async (name: string, lines: string[], hyperparameters = {}) => {
      const file = join(folder.path, `${name}.csv`)
      await writeFile(file, ['d,v', ...lines].join('\n'))
      return runTrainer({
        folder: join(folder.path, name),
        model: 'time-series-forecast',
        file,
        hyperparameters: { epochs: 2, horizon: 3, ...hyperparameters },
      })
    }
    const iso = DAYS.map((at) => `${formatDayFirst(at).split('/').toReversed().join('-')},${at ** 2 % 7}`)
    const rows = DAYS.map((at) => `${formatDayFirst(at)},${at ** 2 % 7}`)
    const [straight, newestFirst, repeated] = [
      await train('iso', iso),
      await train('newest', rows.toReversed()),
      await train('repeated', [...rows.slice(0, 30), ...rows.slice(40), '3/1/2023,4', ',1'], {
        time_column: 'd',
      }),
    ]

    assert.equal(straight.result.metrics.warnings, undefined)
    const parsed = "Parsed 'd' as dates, day first."
    assert.deepEqual(newestFirst.result.metrics.warnings, [{ message: parsed, column: 'd' }])
    assert.equal(await treesOf(newestFirst), await treesOf(straight))
    assert.deepEqual(
      repeated.result.metrics.warnings?.map(({ message, count, row }) => [message, count, row]),
      [
        [parsed, undefined, undefined],
        ["Left out 1 row without a time in 'd'; the first is row 82.", 1, 82],
        ["1 row repeats a time in 'd'; the first is row 81. Each counts as a separate step.", 1, 81],
        [
          "The times in 'd' have 1 gap; the first is between 2023-01-30 and 2023-02-10. Every row counts as one step.",
          1,
          undefined,
        ],
      ],
    )
  })

  it("interprets dataset cells as the dataset's trainer does", async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'data.csv')
    const odd = [
      ...MARKS.filter((mark) => mark !== ''),
      'x',
      '4,5',
      '4,500',
      '$4',
      '4 %',
      "4'000",
      '1e3',
      'true',
    ]
    const values = (at: number): string[] => [
      String(at),
      ...odd.map((cell) => (at === 8 ? cell : `${at}.5`)),
      `${at}`,
    ]
    const line = (cells: string[]): string => cells.map((cell) => `"${cell}"`).join(',')
    const names = ['', ...odd.map((_, at) => `c${at}`), 'price']
    await writeFile(
      file,
      [line(names), ...Array.from({ length: 60 }, (_, at) => line(values(at)))].join('\n'),
    )

    const [profile, run] = await Promise.all([
      readDataset({ path: file, format: 'csv' }),
      runTrainer({ folder: folder.path, model: 'tabular-regression', file, hyperparameters: { epochs: 2 } }),
    ])

    assert.equal(run.code, 0, run.error?.message)
    const learnt = (run.result.input_schema.properties['instances']?.items['properties'] ?? {}) as object
    const numbers = profile.columns.filter(({ type }) => type === 'number').map(({ name }) => name)
    assert.deepEqual(Object.keys(learnt).toSorted(), numbers.toSorted())
    assert.equal(numbers.length, MARKS.length - 1 + 3)
    const reasons = new Map(run.result.metrics.left_out_columns.map(({ column, reason }) => [column, reason]))
    assert.equal(reasons.get('Unnamed: 0'), 'it has no name and numbers the rows')
    const nearly = "it is text with 60 different values: 59 of 60 values are numbers; row 9 is 'x'"
    assert.equal(reasons.get(`c${odd.indexOf('x')}`), nearly)
    const errors = run.result.metrics.warnings?.find(({ column }) => column === `c${odd.indexOf('#DIV/0!')}`)
    assert.deepEqual([errors?.count, errors?.row], [1, 9])
  })

  it('learns numbers in other notations and free text with a warning', async () => {
    using folder = temporaryFolder()
    const rows = Array.from({ length: 60 }, (_, at) => ({
      plain: String(at % 9),
      comma: `${at % 7},5`,
      code: `0${1000 + at}`,
      note: `the tenant of flat ${at % 25}`,
      price: `€ ${1 + at}.${at % 9}00,50`,
    }))
    const file = await writeJsonl(folder.path, rows)

    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      format: 'jsonl',
      file,
      hyperparameters: { epochs: 2 },
    })

    assert.equal(run.code, 0, run.error?.message)
    assert.deepEqual(
      run.result.metrics.warnings?.map(({ message }) => message),
      [
        "Column 'price' is read as numbers with a decimal comma, without '€': '€ 1.000,50' in row 1 is 1000.5.",
        "Column 'plain' is read as numbers, though the dataset stores them as text: '0' in row 1 is 0.",
        "Column 'comma' is read as numbers with a decimal comma: '0,5' in row 1 is 0.5.",
        "Column 'note' is learned as a category with 25 distinct values, most of them in 3 rows or fewer; text that isn't in the training rows counts as missing. Add the column to ignore_columns, or train a text-classification model to learn from its words.",
      ],
    )
    assert.deepEqual(Object.keys(run.result.example_input.instances[0] ?? {}), ['plain', 'comma', 'note'])
  })

  it('reports classes that differ only in case, rows without a class or text, and text without words', async () => {
    using folder = temporaryFolder()
    const rows = reviewRows(60).map((row, at) => ({
      text: at === 5 ? '' : at % 20 === 11 ? '...' : (row['text'] ?? null),
      label:
        at === 9 ? '' : at % 10 === 3 ? ' Good' : at % 2 ? 'good' : 'málo'.normalize(at % 4 ? 'NFC' : 'NFD'),
    }))
    const file = await writeCsv(folder.path, rows)

    const run = await runTrainer({
      folder: folder.path,
      model: 'text-classification',
      file,
      hyperparameters: { epochs: 2 },
    })
    const strange = Array.from({ length: 60 }, (_, at) => ({ text: `word${at}`, label: 'ab'[at % 2] ?? '' }))
    const unknown = await runTrainer({
      folder: folder.path,
      model: 'text-classification',
      file: await writeCsv(folder.path, strange),
      hyperparameters: { epochs: 2 },
    })

    assert.equal(run.code, 0, run.error?.message)
    const [warning, ...more] = unknown.result.metrics.warnings ?? []
    assert.match(
      warning?.message ?? '',
      /^12 of 12 held-out texts have no word in common with the training texts, such as row \d+: /,
    )
    assert.deepEqual([warning?.count, more], [12, []])
    assert.deepEqual(
      run.result.metrics.warnings?.map(({ message }) => message),
      [
        "Left out 1 row without a value in 'label'; the first is row 10.",
        "Left out 1 row without a value in 'text'; the first is row 6.",
        "Classes in 'label' differ only in case, spaces or the encoding of accents and are learned as different classes: 'Good' and 'good'; 'ma\u0301lo' and 'málo'.",
        "3 texts have no word or symbol to learn from, such as '...' (row 12): the model gives all such texts the same prediction.",
      ],
    )
  })
})
