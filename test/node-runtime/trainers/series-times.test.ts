import assert from 'node:assert/strict'
import {
  datesCsv,
  probeTables,
  shufflePositions,
  type TableRequest,
} from '../../support/builders/probes/table-probe.ts'

const two = (value: number): string => String(value).padStart(2, '0')
/** The parts of a date with a two-digit year. */
type Parts = [day: string, month: string, year: string]
/** Returns `count` days from January of `year`, each the first or the last of its month. */
const months = (year: number, every: number, count: number, isEnd = false): Parts[] =>
  Array.from({ length: count }, (_, i) => {
    const at = new Date(Date.UTC(year, i * every + (isEnd ? every : 0), isEnd ? 0 : 1))
    return [two(at.getUTCDate()), two(at.getUTCMonth() + 1), two(at.getUTCFullYear() % 100)]
  })

describe('time order of series', () => {
  it('sorts dates with two-digit years by time, whatever their separator and the order of their parts', async () => {
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
            { name, count: dates.length, file: datesCsv(dates) },
            { name: `${name}, newest first`, count: dates.length, file: datesCsv(dates, newestFirst) },
          ]
        }),
      ),
    )

    const found = await probeTables(cases.map(({ file }) => file))

    for (const [i, { name, count }] of cases.entries())
      assert.deepEqual(
        found[i]?.series,
        Array.from({ length: count }, (_, at) => at),
        `${name}: ${found[i]?.error?.[1]}`,
      )
  })

  it('reads unsorted dates with periods as day first, with a warning, and rejects other separators', async () => {
    const dates = (mark: string) => months(2016, 1, 96).map((parts) => parts.join(mark))
    const [points, dashes] = await probeTables(
      ['.', '-'].map((mark) => datesCsv(dates(mark), shufflePositions(96))),
    )

    assert.deepEqual(
      points?.series,
      dates('.').map((_, i) => i),
    )
    assert.match(String(points?.warnings[0]), /day first: no value decides .* dots have the day first/)
    assert.equal(dashes?.error?.[0], 'ambiguous_time')
    assert.match(String(dashes?.error?.[1]), /may have the day or the month or the year first/)
  })

  it('does not split a series at a century boundary', async () => {
    const years = [67, 68, 69, 70].map((year) => [1, 2, 3].map((month) => [year, month] as const)).flat()
    const names = ['', 'Jan', 'Feb', 'Mar']
    const found = await probeTables([
      datesCsv(years.map(([year, month]) => `01.0${month}.${year}`)),
      datesCsv(years.map(([year, month]) => `${names[month]}-${year}`)),
      datesCsv(['98', '99', '00', '01'].map((year) => `15-Jun-${year}`)),
    ])

    assert.deepEqual(
      found.map(({ series }) => series),
      [years.map((_, i) => i), years.map((_, i) => i), [0, 1, 2, 3]],
    )
  })

  it('keeps the order of the file when all rows have the same time', async () => {
    const [one, newestFirst] = await probeTables([
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

  it('drops rows before the first and after the last value of a series, and fills the gaps between', async () => {
    const values = ['', '1', '', '3', '4', '', '']
    const [found] = await probeTables([{ text: ['v', ...values].join('\n'), target: 'v', filled: true }])

    assert.deepEqual(found?.series, [1, 2, 3, 4])
    assert.deepEqual(found?.warnings, [
      "Left out 2 rows before the first or after the last value of 'v'; the first is row 1.",
      "1 missing value in 'v' is filled in between the neighbors; the first is in row 3.",
    ])
  })

  it('reads numbers as dates only if their digits end with the year', async () => {
    const days = Array.from({ length: 90 }, (_, i) => new Date(Date.UTC(2023, 0, 20 + i)))
    const parts = days.map((at) => [
      two(at.getUTCDate()),
      two(at.getUTCMonth() + 1),
      String(at.getUTCFullYear()),
    ])
    const numbers = (order: (parts: string[]) => string, digits = 4) =>
      parts.map(([d = '', m = '', y = '']) => String(Number(order([d, m, y.slice(-digits)]))))
    const mixed = shufflePositions(90)
    const [dayFirst, monthFirst, short, serial, isoDigits, open] = await probeTables([
      {
        ...datesCsv(
          numbers(([d, m, y]) => `${d}${m}${y}`),
          mixed,
        ),
        time: 'd',
      },
      {
        ...datesCsv(
          numbers(([d, m, y]) => `${m}${d}${y}`),
          mixed,
        ),
        time: 'd',
      },
      { ...datesCsv(numbers(([d, m, y]) => `${d}${m}${y}`, 2)), time: 'd' },
      {
        ...datesCsv(
          Array.from({ length: 90 }, (_, i) => String(40_101 + i)),
          mixed,
        ),
        time: 'd',
      },
      {
        ...datesCsv(
          numbers(([d, m, y]) => `${y}${m}${d}`),
          mixed,
        ),
        time: 'd',
      },
      { ...datesCsv(['1022023', '2032023', '3012023', '4052023', '12042023'], [3, 1, 0, 4, 2]), time: 'd' },
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

  it('reads numbers that are months, and never lets other unitless numbers change the order silently', async () => {
    const all = Array.from({ length: 36 }, (_, i) => i)
    const unsorted = all.map((i) => (i * 5) % 36)
    const written = (text: (month: number, year: number) => string) =>
      all.map((i) => text(1 + (i % 12), 2019 + Math.floor(i / 12)))
    const named = (file: TableRequest) => ({ ...file, text: file.text.replace('d,v', 'month,v') })
    const pointed = written((month, year) => `${two(month)}.${year}`)
    const [point, mixed, json, digits, six, sorted, points, days, lap, count, years, hours] =
      await probeTables([
        named(datesCsv(pointed)),
        { ...datesCsv(pointed, unsorted), time: 'd' },
        {
          text: pointed.map((d, v) => JSON.stringify({ month: Number(d), v })).join('\n'),
          target: 'v',
          format: 'jsonl',
        },
        named(datesCsv(written((month, year) => `${two(month)}${two(year % 100)}`))),
        {
          ...datesCsv(
            written((month, year) => `${year}${two(month)}`),
            unsorted,
          ),
          time: 'd',
        },
        { ...datesCsv(written((month, year) => `${year}.${two(month)}`)), time: 'd' },
        { ...datesCsv(written((month, year) => `${year}.${month}`)), time: 'd' },
        { ...datesCsv(all.map((i) => `${two(1 + (i % 28))}.${two(1 + Math.floor(i / 28))}`)), time: 'd' },
        { text: ['lap_time,v', ...unsorted.map((t, v) => `${t}.25,${v}`)].join('\n'), target: 'v' },
        { ...datesCsv(['1', '2', '4', '3', '5']), time: 'd' },
        { text: ['year,v', ...[3, 1, 2, 0].map((v) => `${2020 + v},${v}`)].join('\n'), target: 'v' },
        { ...datesCsv(['1.18', '1.19', '1.2', '1.21', '2.18', '2.2']), time: 'd' },
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

  it('rejects unsorted decimal numbers that may be dates, and sorts other numbers with a warning', async () => {
    const all = Array.from({ length: 96 }, (_, i) => i)
    const swapped = all.map((i) => (i === 40 ? 41 : i === 41 ? 40 : i))
    const times = {
      'elapsed seconds': all.map((i) => (i * 0.0137).toFixed(4)),
      'hours in seconds': all.map((i) => (i * 40.25).toFixed(2)),
      'Julian days': all.map((i) => String(2_459_215.5 + i / 24)),
      'spreadsheet days': all.map((i) => String(44_197 + i / 24)),
      'decimal years': all.map((i) => (2015 + i / 12).toFixed(3)),
      'short decimal years': all.map((i) => (2015 + i / 12).toFixed(2)),
    }
    const at = all.map((i) => new Date(Date.UTC(2021, 0, 1 + i, 23, 30)))
    const month = (day: Date) => two(day.getUTCMonth() + 1)
    const dates = {
      'DD.MM': at.map((day) => `${two(day.getUTCDate())}.${month(day)}`),
      'YYYY.M': all.map((i) => `${2015 + Math.floor(i / 12)}.${1 + (i % 12)}`),
      'MM.YY': all.map((i) => `${two(1 + (i % 12))}.${two(19 + Math.floor(i / 12))}`),
      'WW.YYYY': all.map((i) => `${two(1 + (i % 52))}.${2019 + Math.floor(i / 52)}`),
      'DDD.YYYY': all.map((i) => `${1 + ((300 + i) % 365)}.${2020 + Math.floor((300 + i) / 365)}`),
      'HH.mm': all.map((i) => `${two((12 + Math.floor(i / 4)) % 24)}.${two((i % 4) * 15)}`),
      'DDMM.HHmm': at.map((day) => `${two(day.getUTCDate())}${month(day)}.2330`),
      'DDMMYY.HHmm': at.map((day) => `${two(day.getUTCDate())}${month(day)}21.2330`),
      'DDMMYYYY.HHmmss': at.map((day) => `${two(day.getUTCDate())}${month(day)}2021.233015`),
    }
    const files = [
      ...Object.values(times).flatMap((one) => [datesCsv(one, swapped), datesCsv(one, shufflePositions(96))]),
      ...Object.values(dates).map((one) => datesCsv(one)),
    ]

    const found = await probeTables(files.map((file) => ({ ...file, time: 'd' })))

    for (const one of found.splice(0, 12)) {
      assert.deepEqual(one.series, all, one.error?.[1])
      assert.match(String(one.warnings), /have no unit, and sorting by them puts row/)
    }
    for (const [i, name] of Object.keys(dates).entries())
      assert.equal(found[i]?.error?.[0], 'ambiguous_time', name)
  })

  it('advises merging a time split across two columns, but not for several series', async () => {
    const table = (names: string, times: (i: number) => string) => ({
      text: [`${names},v`, ...Array.from({ length: 48 }, (_, i) => `${times(i)},${i}`)].join('\n'),
      target: 'v',
    })
    const day = (i: number) => `2023-01-0${1 + Math.floor(i / 24)}`
    const found = await probeTables([
      table('date,time', (i) => `${day(i)},${two(i % 24)}:30`),
      table('date,time', (i) => `${day(i)},${i % 24}.00.00`),
      table('date,at', (i) => `${day(i)},${two(i % 24)}.${two(((i % 24) * 7) % 60)}.30`),
      table('date,hour', (i) => `${day(i)},${i % 24}`),
      { ...table('year,month', (i) => `${2020 + Math.floor(i / 12)},${1 + (i % 12)}`), time: 'year' },
      table('date,shop', (i) => `${day(i)},${i % 24}`),
    ])

    assert.deepEqual(
      found.map(({ error }) => error?.[0]),
      [...Array.from({ length: 5 }, () => 'time_in_two_columns'), 'several_series'],
    )
    assert.match(String(found[0]?.error?.[1]), /'time' tells them apart\. .*write both into one/)
  })
})

describe('several time columns', () => {
  type Cell = (row: number) => string | number
  const rows = Array.from({ length: 90 }, (_, i) => i)
  const mixed = shufflePositions(90)
  const newestFirst = rows.toReversed()
  const iso = (day: number) => new Date(Date.UTC(2021, 0, 1 + day)).toISOString().slice(0, 10)
  const points = (day: number) => iso(day).split('-').toReversed().join('.')
  /** Returns unordered times that differ in every row. */
  const other = (i: number) => `${iso((i * 53) % 90)}T10:00:00`
  /** Returns the days of a file that has three rows per day. */
  const sold = (i: number) => iso(Math.floor(i / 3))
  const dayOrMonthFirst = (i: number) => `${1 + ((i * 5) % 12)}/${1 + ((i * 7) % 11)}/2023`
  const dayOrYear = (i: number) => `Jan ${10 + ((i * 7) % 20)}`
  const table = (names: string, a: Cell, b: Cell, order = rows): TableRequest => ({
    text: [`${names},v`, ...order.map((i) => `${a(i)},${b(i)},${i}`)].join('\n'),
    target: 'v',
  })

  it('cause no warning if only one differs in every row and is in file order, or if all have the same order', async () => {
    const hours = (i: number) => `${iso(Math.floor(i / 9))}T1${i % 9}:00`
    const cases = {
      'two timestamps': table('a,b', other, iso),
      'a timestamp and a text column': table('a,b', other, points),
      'a text column and a timestamp': table('a,b', (i) => points((i * 53) % 90), iso),
      'the newest row first': table('a,b', other, points, newestFirst),
      'the first column': table('a,b', iso, other),
      'dates that could be day-first or month-first': table('a,b', dayOrMonthFirst, iso),
      'months that may be days': table('a,b', dayOrYear, iso),
      'a year number': table('a,year', other, (i) => 1920 + i),
      'days and hours': table('a,b', (i) => iso(Math.floor(i / 9)), hours),
      'one date in all rows': table('a,b', () => iso(9), iso, mixed),
      'an index of shuffled rows': table('period,b', (i) => mixed.indexOf(i), iso, mixed),
      'a start and an end': table('a,b', iso, (i) => iso(i + 1)),
      'a start and an end in shuffled rows': table('a,b', iso, (i) => iso(i + 1), mixed),
    }
    const gap = table('a,b', other, (i) => (i === 40 ? '' : iso(i)))

    const [withGap, ...found] = await probeTables([gap, ...Object.values(cases)])

    assert.deepEqual(
      withGap?.series,
      rows.filter((i) => i !== 40),
    )
    for (const [i, name] of Object.keys(cases).entries()) {
      assert.deepEqual(found[i]?.series, rows, `${name}: ${found[i]?.error?.[1]}`)
      assert.doesNotMatch(String(found[i]?.warnings), /orders the rows|isn't used/, name)
    }
  })

  it('are otherwise named in a warning, whichever column orders the rows', async () => {
    const byOther = rows.map((_, at) => rows.find((i) => (i * 53) % 90 === at))
    const fromB = (i: number) => iso(89 - i)
    const cases: [file: TableRequest, used: string, series: unknown[]][] = [
      [table('a,b', other, sold), 'b', rows],
      [table('a,b', sold, other), 'a', rows],
      [table('a,b', other, sold, newestFirst), 'b', rows],
      [table('a,b', other, (i) => (i % 5 ? iso(i) : '')), 'a', byOther],
      [table('a,b', points, fromB), 'a', rows],
      [table('a,b', other, (i) => iso((i * 7) % 90)), 'a', byOther],
      [table('a,b', (i) => points(i % 12), other), 'b', byOther],
      [table('a,b', other, dayOrMonthFirst), 'a', byOther],
      [table('a,b', dayOrYear, other), 'b', byOther],
      [table('a,period', dayOrYear, (i) => i), 'period', rows],
      [
        table('a,b', sold, (i) => `${sold(i)}T1${(i * 2) % 3}:00`),
        'b',
        rows.map((i) => 3 * Math.floor(i / 3) + [0, 2, 1][i % 3]!),
      ],
      [table('a,b', (i) => iso(Math.floor(i / 45)), other), 'b', byOther],
    ]

    const found = await probeTables(cases.map(([file]) => file))

    for (const [i, [file, used, series]] of cases.entries()) {
      const name = file.text.slice(0, 80)
      assert.deepEqual(found[i]?.series, series, `${name}: ${found[i]?.error?.[1]}`)
      const choice = found[i]?.warnings.find((one) => one.startsWith(`'${used}' orders the rows, because `))
      assert.match(String(choice), /\. Name the right one as time_column: '\w+', '\w+'\.$/, name)
    }
    assert.match(String(found[7]?.warnings[0]), /^'b' isn't used as times\. .* the day or the month first/)
  })

  it("count as several series if each repeats the file's days", async () => {
    const text = table('a,b', other, sold).text.split('\n')
    const shops = text.map((line, i) => `${i ? `s${i % 3}` : 'shop'},${line}`).join('\n')

    const [found] = await probeTables([{ text: shops, target: 'v' }])

    assert.equal(found?.error?.[0], 'several_series')
    assert.match(String(found?.warnings[0]), /^'b' orders the rows, because the file is already in its order/)
  })
})
