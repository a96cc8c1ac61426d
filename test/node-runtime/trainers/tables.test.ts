import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { pythonOf } from '../../support/servers/trainer.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

interface Learned {
  columns?: Record<string, string[]>
  series?: number[]
  classes?: string[]
  /** The rows with a text and a class, from 1. */
  rows?: number[]
  error?: [code: string, message: string]
  warnings: string[]
}

interface Asked {
  text: string
  /** Further files of the dataset. */
  more?: string[]
  /** A column to put in order of time. */
  target?: string
  /** The column of times. */
  time?: string
  /** Fills the gaps of the target, as forecasts do. */
  filled?: boolean
  /** A column of classes; the others are features. */
  label?: string
  format?: string
  /** Reads texts and their classes instead of a table. */
  hyperparameters?: Record<string, string>
}

/** Reads files as the trainers do. */
async function learned(files: Asked[]): Promise<Learned[]> {
  const probe = join(ROOT, 'test', 'support', 'builders', 'table_probe.py')
  const child = spawn(await pythonOf('tabular'), [probe], {
    env: pythonProcessEnv({ PYTHONPATH: join(ROOT, 'node-runtime', 'trainers') }),
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(files))
  return JSON.parse(await text(child.stdout)) as Learned[]
}

const two = (value: number): string => String(value).padStart(2, '0')
/** The parts of a date with a year of two digits. */
type Parts = [day: string, month: string, year: string]
/** Returns the days of months from January of a year on, each the first or the last of its month. */
const months = (year: number, every: number, count: number, isEnd = false): Parts[] =>
  Array.from({ length: count }, (_, i) => {
    const at = new Date(Date.UTC(year, i * every + (isEnd ? every : 0), isEnd ? 0 : 1))
    return [two(at.getUTCDate()), two(at.getUTCMonth() + 1), two(at.getUTCFullYear() % 100)]
  })
const dated = (dates: string[], order = dates.map((_, i) => i)) => ({
  text: ['d,v', ...order.map((i) => `${dates[i]},${i}`)].join('\n'),
  target: 'v',
})
const shuffled = (count: number): number[] => Array.from({ length: count }, (_, i) => (i * 37) % count)

describe('tables as their trainers read them', () => {
  it('orders dates with two-digit years by time, whatever their mark and the order of their parts', async () => {
    const series = {
      monthly: months(2016, 1, 96),
      quarterly: months(1995, 3, 41),
      'month ends': months(2016, 1, 96, true),
      'quarter ends': months(1995, 3, 41, true),
      yearly: months(1961, 12, 45),
    }
    const orders: Record<string, (parts: Parts) => Parts> = {
      'day first': (parts) => parts,
      'month first': ([day, month, year]) => [month, day, year],
      'year first': ([day, month, year]) => [year, month, day],
    }
    const cases = Object.entries(series).flatMap(([kind, days]) =>
      Object.entries(orders).flatMap(([order, reorder]) =>
        ['.', '/', '-'].flatMap((mark) => {
          const dates = days.map((day) => reorder(day).join(mark))
          const newestFirst = dates.map((_, i) => dates.length - 1 - i)
          const name = `${kind}, ${order}, ${mark}`
          return [
            { name, count: dates.length, file: dated(dates) },
            { name: `${name}, newest first`, count: dates.length, file: dated(dates, newestFirst) },
          ]
        }),
      ),
    )

    const found = await learned(cases.map(({ file }) => file))

    for (const [i, { name, count }] of cases.entries())
      assert.deepEqual(
        found[i]?.series,
        Array.from({ length: count }, (_, at) => at),
        `${name}: ${found[i]?.error?.[1]}`,
      )
  })

  it('reads an unsorted file with points day first, says so, and refuses other marks', async () => {
    const dates = (mark: string) => months(2016, 1, 96).map((parts) => parts.join(mark))
    const [points, dashes] = await learned(['.', '-'].map((mark) => dated(dates(mark), shuffled(96))))

    assert.deepEqual(
      points?.series,
      dates('.').map((_, i) => i),
    )
    assert.match(String(points?.warnings[0]), /day first: no value decides .* points have the day first/)
    assert.equal(dashes?.error?.[0], 'ambiguous_time')
    assert.match(String(dashes?.error?.[1]), /may have the day or the month or the year first/)
  })

  it('puts no border of centuries into a series', async () => {
    const years = [67, 68, 69, 70].map((year) => [1, 2, 3].map((month) => [year, month] as const)).flat()
    const names = ['', 'Jan', 'Feb', 'Mar']
    const found = await learned([
      dated(years.map(([year, month]) => `01.0${month}.${year}`)),
      dated(years.map(([year, month]) => `${names[month]}-${year}`)),
      dated(['98', '99', '00', '01'].map((year) => `15-Jun-${year}`)),
    ])

    assert.deepEqual(
      found.map(({ series }) => series),
      [years.map((_, i) => i), years.map((_, i) => i), [0, 1, 2, 3]],
    )
  })

  it('leaves rows in the order of the file while all have one time', async () => {
    const [one, newestFirst] = await learned([
      { text: 'd,v\n2024-01-01,1\n2024-01-01,2\n2024-01-01,3', target: 'v' },
      { text: 'd,v\n2024-01-02,3\n2024-01-02,2\n2024-01-01,1', target: 'v' },
    ])

    assert.deepEqual(
      [one?.series, newestFirst?.series],
      [
        [1, 2, 3],
        [1, 2, 3],
      ],
    )
  })

  it('reads points as marks of thousands where the file shows that they are, and warns otherwise', async () => {
    const cases: [csv: string, numbers: string[], warning: RegExp | undefined][] = [
      [
        'a;b\n850;x\n1.234;y\n12.345;z',
        ['850', '1234', '12345'],
        /points between thousands: '1\.234' in row 2 is 1234/,
      ],
      ['a;b\n€ 1.234;0,5\n€ 12.345;1,25', ['1234', '12345'], /points between thousands/],
      ['a,b\n-1.234,"0,5"\n850,"1,25"', ['-1234', '850'], /points between thousands/],
      ['a,b\n1.234.567,x\n1.234,y', ['1234567', '1234'], /points between thousands/],
      ['a,b\n1.234,x\n5.678,y', ['1.234', '5.678'], /decimal point, which may be a mark of thousands/],
      ['a;b\n1.234;2.5\n5.678;0.25', ['1.234', '5.678'], undefined],
      ['a;b\n0.234;x\n5.678;y', ['0.234', '5.678'], undefined],
      ['a;b\n1.2345;x\n5.678;y', ['1.2345', '5.678'], undefined],
    ]

    const found = await learned(cases.map(([csv]) => ({ text: csv })))

    for (const [i, [csv, numbers, warning]] of cases.entries()) {
      const about = found[i]?.warnings.filter((message) => message.startsWith("Column 'a'")) ?? []
      assert.deepEqual([found[i]?.columns?.['a'], about.length], [numbers, warning ? 1 : 0], csv)
      if (warning) assert.match(String(about[0]), warning, csv)
    }
  })

  it('reads gaps only between the thousands of one number, and no hexadecimal numbers, as the profile of a dataset does', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'data.csv')
    const columns: [name: string, cells: string[], isNumber: boolean][] = [
      ['one', ['1 000', '12 345,5', '1 234 567'], true],
      ['two', ['10 2000', '1 000', '2 000'], false],
      ['many', ['1 0000', '1 000', '3'], false],
      ['zero', ['0 123', '1 000', '3'], false],
      ['hex', ['0x1F', '12', '13'], false],
    ]
    const lines = [0, 1, 2].map((row) => columns.map(([, cells]) => cells[row]).join(';'))
    const csv = [columns.map(([name]) => name).join(';'), ...lines].join('\n')
    await writeFile(file, csv)

    const [[found], profile] = await Promise.all([
      learned([{ text: csv }]),
      readDataset({ path: file, format: 'csv' }),
    ])

    const learns = columns.map(([name, cells]) => found?.columns?.[name]?.join() !== cells.join())
    const types = profile.columns.map(({ type }) => type === 'number' || type === 'integer')
    const expected = columns.map(([, , isNumber]) => isNumber)
    assert.deepEqual([learns, types], [expected, expected])
    assert.deepEqual(found?.columns?.['one'], ['1000.0', '12345.5', '1234567.0'])
  })

  it('leaves rows without a text or a class out of the classes of texts, by the marks of CSV alone', async () => {
    const hyperparameters = { text_column: 'text', target_column: 'label' }
    const rows = [
      ['a fox', 'animal'],
      ['an oak', 'plant'],
      ['a thing', 'NA'],
      ['', 'plant'],
      ['  ', 'animal'],
      ['a rock', 'n/a'],
      ['a fern', 'plant'],
      ['', ''],
      ['a cat', 'animal'],
    ]
    const csv = ['text,label', ...rows.map((row) => row.join())].join('\n')
    const json = (own: string[][]) =>
      own.map(([said, label]) => JSON.stringify({ text: said, label })).join('\n')
    const [table, lines, blank] = await learned([
      { text: csv, hyperparameters },
      { text: json(rows), format: 'jsonl', hyperparameters },
      {
        text: json([
          ['', 'animal'],
          [' ', 'plant'],
        ]),
        format: 'jsonl',
        hyperparameters,
      },
    ])

    assert.deepEqual(
      [table?.classes, table?.rows],
      [
        ['animal', 'plant'],
        [1, 2, 7, 9],
      ],
    )
    assert.deepEqual(table?.warnings, [
      "Left out 3 rows without a value in 'label'; the first is row 3.",
      "Left out 2 rows without a value in 'text'; the first is row 4.",
    ])
    assert.deepEqual(lines?.classes, ['NA', 'animal', 'n/a', 'plant'])
    assert.match(String(blank?.error?.[1]), /No row has both a text in 'text' and a class in 'label'/)
  })

  it('warns about codes that become one number without their leading zeros', async () => {
    const [codes, padded, rest, files] = await learned([
      { text: 'a,label\n1,12\n2,07\n3,7\n4,007' },
      { text: 'a,label\n1,12\n2,07\n3,08\n4,07' },
      { text: 'a,label\n1,12\n2,7\n3,+7\n4,0' },
      { text: 'a,label\n1,12\n2,7', more: ['a\n1', 'a,label\n3,8\n4,007'] },
    ])

    assert.equal(codes?.warnings.length, 1)
    assert.match(String(codes?.warnings[0]), /^'07' and '7' \(row 3\) in 'label' are read as one number, 7\./)
    assert.deepEqual([padded?.warnings, rest?.warnings], [[], []])
    assert.match(String(files?.warnings), /^'7' and '007' \(row 5\) in 'label' are read as one number, 7\./)
    assert.deepEqual(files?.columns?.['label'], ['12', '7', 'None', '8', '7'])
  })

  it('learns classes as they are written, no blank ones, and warns about dates that are learnt as texts', async () => {
    const labelled = (labels: string[], feature = (i: number) => `f${i}`) => ({
      text: [
        'a,y',
        ...Array.from({ length: 12 }, (_, i) => `${feature(i)},${labels[i % labels.length]}`),
      ].join('\n'),
      label: 'y',
    })
    const rows = Array.from({ length: 40 }, (_, i) => ({
      d: `${two(1 + (i % 14))}/03/2023`,
      y: ['a', 'b', '', ' '][i % 4],
    }))
    const [versions, ids, exponents, whole, plain, features, blank] = await learned([
      labelled(['1.1', '1.10', '1.2']),
      labelled(['10000000000000000001', '10000000000000000002', '5']),
      labelled(['1e2', '100', '.5']),
      labelled(['1', '1.0', '2']),
      labelled(['1.5', '2.5']),
      labelled(['x', 'y'], (i) => ['1.1', '1.10'][i % 2] ?? ''),
      { text: rows.map((row) => JSON.stringify(row)).join('\n'), format: 'jsonl', label: 'y' },
    ])

    assert.deepEqual(versions?.classes, ['1.1', '1.10', '1.2'])
    assert.deepEqual(versions?.warnings, [
      "'1.1' and '1.10' (row 2) in 'y' are learnt as different classes; write one class in one way.",
    ])
    assert.deepEqual(ids?.classes, ['10000000000000000001', '10000000000000000002', '5'])
    assert.deepEqual(exponents?.classes, ['.5', '100', '1e2'])
    assert.deepEqual(whole?.classes, ['1.0', '2.0'])
    assert.match(String(whole?.warnings), /^'1' and '1\.0' \(row 2\) in 'y' are read as one number, 1\./)
    assert.deepEqual([plain?.warnings, features?.warnings], [[], []])
    assert.deepEqual(blank?.classes, ['a', 'b'])
    assert.deepEqual(blank?.warnings, [
      "Left out 20 rows without a value in 'y'; the first is row 3.",
      "Column 'd' is learnt as texts: it looks like dates; only those written as 2023-12-31 or 2023-12-31T23:59:00Z are read.",
    ])
  })

  it('warns about free texts that are learnt as a category, and not about towns, codes and labels', async () => {
    const of = (feature: (i: number) => string) => ({
      text: ['a,y', ...Array.from({ length: 80 }, (_, i) => `${feature(i)},${'xy'[i % 2]}`)].join('\n'),
      label: 'y',
    })
    const found = await learned([
      of((i) => `late by ${i % 30} days again`),
      of((i) => (i % 4 ? '' : `"no, it broke after ${i % 40} weeks"`)),
      of((i) => `Saint George ${i % 30}`),
      of((i) => `AB-${1000 + (i % 30)}-X`),
      of((i) => `I agree in part ${i % 8}`),
      of((i) => `section ${i % 12} of the form`),
    ])

    assert.deepEqual(
      found.map(({ warnings }) =>
        warnings.map((message) => /category of \d+ different texts/.exec(message)?.[0]),
      ),
      [['category of 30 different texts'], ['category of 10 different texts'], [], [], [], []],
    )
  })

  it('reads a blank line of a table with one column as a missing value, as the profile of the dataset does', async () => {
    using folder = temporaryFolder()
    const bodies = ['v\n1\n\n3\n\n', '"a,v"\n1\n\n""\n4', 'v,w\n1,2\n\n3,4\n']
    const found = await learned(bodies.map((body) => ({ text: body })))

    const values = found.map(({ columns }) => Object.values(columns ?? {})[0])
    assert.deepEqual(values, [
      ['1', 'None', '3', 'None'],
      ['1', 'None', 'None', '4'],
      ['1', '3'],
    ])
    for (const [i, body] of bodies.entries()) {
      const path = join(folder.path, `${i}.csv`)
      await writeFile(path, body)
      assert.equal((await readDataset({ path, format: 'csv' })).num_samples, values[i]?.length)
    }
  })

  it('leaves rows before the first and after the last value out of a series, and fills the gaps between', async () => {
    const values = ['', '1', '', '3', '4', '', '']
    const [found] = await learned([{ text: ['v', ...values].join('\n'), target: 'v', filled: true }])

    assert.deepEqual(found?.series, [1, 2, 3, 4])
    assert.deepEqual(found?.warnings, [
      "Left out 2 rows before the first or after the last value of 'v'; the first is row 1.",
      "1 missing value in 'v' is filled in between the neighbours; the first is in row 3.",
    ])
  })

  it('reads numbers whose digits are dates with the year last, and no others', async () => {
    const days = Array.from({ length: 90 }, (_, i) => new Date(Date.UTC(2023, 0, 20 + i)))
    const parts = days.map((at) => [
      two(at.getUTCDate()),
      two(at.getUTCMonth() + 1),
      String(at.getUTCFullYear()),
    ])
    const numbers = (order: (parts: string[]) => string, digits = 4) =>
      parts.map(([d = '', m = '', y = '']) => String(Number(order([d, m, y.slice(-digits)]))))
    const mixed = shuffled(90)
    const [dayFirst, monthFirst, short, serial, isoDigits, open] = await learned([
      {
        ...dated(
          numbers(([d, m, y]) => `${d}${m}${y}`),
          mixed,
        ),
        time: 'd',
      },
      {
        ...dated(
          numbers(([d, m, y]) => `${m}${d}${y}`),
          mixed,
        ),
        time: 'd',
      },
      { ...dated(numbers(([d, m, y]) => `${d}${m}${y}`, 2)), time: 'd' },
      {
        ...dated(
          Array.from({ length: 90 }, (_, i) => String(40_101 + i)),
          mixed,
        ),
        time: 'd',
      },
      {
        ...dated(
          numbers(([d, m, y]) => `${y}${m}${d}`),
          mixed,
        ),
        time: 'd',
      },
      { ...dated(['1022023', '2032023', '3012023', '4052023', '12042023'], [3, 1, 0, 4, 2]), time: 'd' },
    ])

    for (const found of [dayFirst, monthFirst, short, serial, isoDigits])
      assert.deepEqual(
        found?.series,
        Array.from({ length: 90 }, (_, i) => i),
      )
    assert.match(String(dayFirst?.warnings), /Parsed 'd' as dates, day first\./)
    assert.match(String(monthFirst?.warnings), /Parsed 'd' as dates, month first\./)
    assert.match(String(short?.warnings), /Parsed 'd' as dates, day first/)
    assert.match(
      String(serial?.warnings),
      /^The numbers in 'd' have no unit, and sorting by them puts row 4 \(40122\) before row 3 \(40175\)/,
    )
    assert.deepEqual(isoDigits?.warnings, [])
    assert.equal(open?.error?.[0], 'ambiguous_time')
  })

  it('reads numbers that are months, and never lets other numbers without a unit change the order in silence', async () => {
    const all = Array.from({ length: 36 }, (_, i) => i)
    const unsorted = all.map((i) => (i * 5) % 36)
    const written = (text: (month: number, year: number) => string) =>
      all.map((i) => text(1 + (i % 12), 2019 + Math.floor(i / 12)))
    const named = (file: Asked) => ({ ...file, text: file.text.replace('d,v', 'month,v') })
    const pointed = written((month, year) => `${two(month)}.${year}`)
    const [point, mixed, json, digits, six, sorted, points, days, lap, count, years, hours] = await learned([
      named(dated(pointed)),
      { ...dated(pointed, unsorted), time: 'd' },
      {
        text: pointed.map((d, v) => JSON.stringify({ month: Number(d), v })).join('\n'),
        target: 'v',
        format: 'jsonl',
      },
      named(dated(written((month, year) => `${two(month)}${two(year % 100)}`))),
      {
        ...dated(
          written((month, year) => `${year}${two(month)}`),
          unsorted,
        ),
        time: 'd',
      },
      { ...dated(written((month, year) => `${year}.${two(month)}`)), time: 'd' },
      { ...dated(written((month, year) => `${year}.${month}`)), time: 'd' },
      { ...dated(all.map((i) => `${two(1 + (i % 28))}.${two(1 + Math.floor(i / 28))}`)), time: 'd' },
      { text: ['lap_time,v', ...unsorted.map((t, v) => `${t}.25,${v}`)].join('\n'), target: 'v' },
      { ...dated(['1', '2', '4', '3', '5']), time: 'd' },
      { text: ['year,v', ...[3, 1, 2, 0].map((v) => `${2020 + v},${v}`)].join('\n'), target: 'v' },
      { ...dated(['1.18', '1.19', '1.2', '1.21', '2.18', '2.2']), time: 'd' },
    ])

    for (const found of [point, mixed, json, digits, six, sorted])
      assert.deepEqual(found?.series, all, found?.error?.[1])
    for (const found of [point, mixed, json, digits])
      assert.match(String(found?.warnings), /^Parsed '(d|month)' as months, month first\.$/)
    assert.deepEqual(six?.warnings, [])
    assert.deepEqual(
      [points, days].map((found) => found?.error?.[0]),
      ['ambiguous_time', 'ambiguous_time'],
    )
    assert.match(
      String(points?.error?.[1]),
      /puts row 10 \(2019\.1\) before row 9 \(2019\.9\)\. If they are dates, write them as 2023-12-31 or 2023-12/,
    )
    assert.deepEqual(lap?.series, all)
    assert.match(String(lap?.warnings), /^No column with times was found: .* 'lap_time' isn't used/)
    assert.deepEqual([count?.series, count?.warnings.length], [[0, 1, 3, 2, 4], 1])
    assert.match(String(count?.warnings), /puts row 4 \(3\) before row 3 \(4\)/)
    assert.deepEqual([years?.series, years?.warnings], [[0, 1, 2, 3], []])
    assert.deepEqual(hours?.series, [0, 1, 2, 3, 4, 5])
    assert.doesNotMatch(String(hours?.warnings), /Parsed/)
  })

  it('says that a time in two columns belongs into one, and no such thing of several series', async () => {
    const table = (names: string, times: (i: number) => string) => ({
      text: [`${names},v`, ...Array.from({ length: 48 }, (_, i) => `${times(i)},${i}`)].join('\n'),
      target: 'v',
    })
    const day = (i: number) => `2023-01-0${1 + Math.floor(i / 24)}`
    const found = await learned([
      table('date,time', (i) => `${day(i)},${two(i % 24)}:30`),
      table('date,hour', (i) => `${day(i)},${i % 24}`),
      { ...table('year,month', (i) => `${2020 + Math.floor(i / 12)},${1 + (i % 12)}`), time: 'year' },
      table('date,shop', (i) => `${day(i)},${i % 24}`),
    ])

    assert.deepEqual(
      found.map(({ error }) => error?.[0]),
      [...Array.from({ length: 3 }, () => 'time_in_two_columns'), 'several_series'],
    )
    assert.match(String(found[0]?.error?.[1]), /'time' tells them apart\. .*write both into one/)
  })
})
