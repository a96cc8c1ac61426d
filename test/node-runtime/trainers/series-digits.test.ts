import assert from 'node:assert/strict'
import {
  datesCsv,
  probeTables,
  shufflePositions,
  type TableRequest,
} from '../../support/builders/probes/table-probe.ts'

describe('numbers of 9 to 14 digits in a time column', () => {
  const hours = Array.from({ length: 200 }, (_, i) => new Date(Date.UTC(2021, 0, 30, i, 30)))
  const days = Array.from({ length: 400 }, (_, i) => new Date(Date.UTC(2021, 0, 1 + i, 6)))
  /** Writes times in the notation, as in a CSV file that lost its leading zeros. */
  const written = (times: Date[], notation: string): string[] =>
    times.map((at) => {
      const [date = '', clock = ''] = at.toISOString().split('T')
      const [year = '', month = '', day = ''] = date.split('-')
      const [hour = '', minute = ''] = clock.split(':')
      const parts = { YYYY: year, YY: year.slice(2), MM: month, DD: day, HH: hour, mm: minute, ss: '00' }
      return Object.entries(parts)
        .reduce((text, [letters, digits]) => text.replace(letters, digits), notation)
        .replace(/^0+(?=\d)/, '')
    })
  const newestFirst = (count: number) => Array.from({ length: count }, (_, i) => count - 1 - i)
  const named = (file: TableRequest) => ({ ...file, time: 'd' })
  const unnamed = (file: TableRequest) => ({ ...file, text: file.text.replace('d,v', 'date,v') })
  const inOrder = (count: number) => Array.from({ length: count }, (_, i) => i)

  it('are date-times if their digits or the order of the file prove it', async () => {
    const withCentury = ['YYYYMMDD', 'DDMMYYYY', 'MMDDYYYY'].flatMap((date) =>
      ['HH', 'HHmm', 'HHmmss'].map((clock) => date + clock),
    )
    const short = ['DDMMYYHHmm', 'MMDDYYHHmm', 'YYMMDDHHmm', 'DDMMYYHHmmss', 'MMDDYYHHmmss', 'HHmmDDMMYY']
    const cases = [...withCentury, 'HHmmDDMMYYYY', ...short].flatMap((notation) =>
      [hours, days].flatMap((times) =>
        [
          inOrder(times.length),
          newestFirst(times.length),
          ...(notation.includes('YYYY') ? [shufflePositions(times.length)] : []),
        ].flatMap((order) =>
          [named, unnamed].map((tableOf) => ({
            notation,
            file: tableOf(datesCsv(written(times, notation), order)),
          })),
        ),
      ),
    )

    const found = await probeTables(cases.map(({ file }) => file))

    for (const [i, { notation, file }] of cases.entries()) {
      const one = found[i]
      const name = `${notation}: ${file.text.slice(0, 60)}`
      assert.deepEqual(one?.series, inOrder(one?.series?.length ?? 1), `${name}: ${one?.error?.[1]}`)
      const read = `Parsed '${file.time ?? 'date'}' as ${notation}, `
      assert.deepEqual(
        one?.warnings.map((warning) => warning.startsWith(read)),
        notation.startsWith('YYYY') ? [] : [true],
        `${name}: ${one?.warnings.join(' ')}`,
      )
    }
  })

  it('are rejected if they may be dates that would change the order, and never used without a time_column', async () => {
    const early = days.filter((at) => at.getUTCDate() <= 12)
    const open = ['DDMMYYHHmm', 'MMDDYYHHmm', 'DDMMYYHHmmss'].flatMap((notation) => {
      const file = datesCsv(written(hours, notation), shufflePositions(hours.length))
      return [{ ...named(file) }, { ...unnamed(file) }]
    })
    const points = datesCsv(
      written(hours, 'DDMMYYYYHH').map((text) => `${text}.30`),
      inOrder(hours.length),
    )
    const [unproven, ...found] = await probeTables([
      named(datesCsv(written(early, 'DDMMYYYYHH'), shufflePositions(early.length))),
      ...open,
      named(points),
      unnamed(points),
    ])

    assert.equal(unproven?.error?.[0], 'ambiguous_time')
    assert.match(
      String(unproven?.error?.[1]),
      /written as DDMMYYYYHH or MMDDYYYYHH, and the order of the rows depends/,
    )
    for (const [i, one] of found.entries())
      if (i % 2 === 0) {
        assert.equal(one.error?.[0], 'ambiguous_time', `case ${i}: ${one.warnings.join(' ')}`)
        assert.match(String(one.error?.[1]), /may be dates written as .*, and sorting by them puts row \d+ /)
      } else {
        assert.equal(one.series?.length, 200, `case ${i}: ${one.error?.[1]}`)
        assert.match(String(one.warnings), /^No column with times was found: .* 'date' isn't used/)
      }
    const inFile = (i: number) => found[i]?.series
    assert.deepEqual([inFile(1), inFile(7)], [shufflePositions(200), inOrder(200)])
  })

  it('are Unix times only if a single unit puts all of them before 2100', async () => {
    const since = (factor: number, end = '') => hours.map((at) => `${Math.round(+at * factor)}${end}`)
    const units = {
      seconds: since(0.001),
      'seconds with a fraction': since(0.001, '.5'),
      milliseconds: since(1),
      microseconds: since(1_000),
      nanoseconds: since(1, '000000'),
    }
    const mixed = hours.map((at, i) => String(i % 2 ? +at : +at / 1_000))
    const cases = Object.entries(units).flatMap(([unit, dates]) =>
      [inOrder(200), shufflePositions(200)].flatMap((order, at) =>
        [named, unnamed].map((tableOf) => ({
          unit,
          isShuffled: at === 1,
          file: tableOf(datesCsv(dates, order)),
        })),
      ),
    )

    const [both, unasked, ...found] = await probeTables([
      named(datesCsv(mixed)),
      unnamed(datesCsv(mixed)),
      ...cases.map(({ file }) => file),
    ])

    for (const [i, { unit, isShuffled }] of cases.entries()) {
      assert.deepEqual(found[i]?.series, inOrder(200), `${unit}: ${found[i]?.error?.[1]}`)
      assert.equal(found[i]?.warnings.length, isShuffled ? 1 : 0, `${unit}: ${found[i]?.warnings.join(' ')}`)
      if (isShuffled)
        assert.match(String(found[i]?.warnings), /count as \w+ since 1970, and sorting by them puts row/)
    }
    assert.match(String(both?.warnings), /^The numbers in 'd' have no unit, and sorting by them puts row 3 /)
    assert.deepEqual(unasked?.series, inOrder(200))
    assert.match(String(unasked?.warnings), /'date' isn't used/)
  })
})

describe('month names with two digits', () => {
  const NAMES = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
  const monthsOf = (year: number, count: number, mark = '-', every = 1) =>
    Array.from({ length: count }, (_, i) => {
      const month = i * every
      return `${NAMES[month % 12]}${mark}${two((year + Math.floor(month / 12)) % 100)}`
    })
  const daysOf = (first: string, count: number, every = 1) =>
    Array.from({ length: count }, (_, i) => {
      const day = new Date(Date.parse(first) + i * every * 86_400_000)
      return `${NAMES[day.getUTCMonth()]} ${two(day.getUTCDate())}`
    })
  const all = (dates: unknown[]) => dates.map((_, i) => i)
  const newestFirst = (dates: unknown[]) => all(dates).toReversed()
  const mixed = (dates: unknown[]) => all(dates).map((i) => (i * 5) % dates.length)
  const named = (file: TableRequest) => ({ ...file, time: 'd' })
  const two = (value: number) => String(value).padStart(2, '0')
  const jsonl = (dates: string[]) => ({
    text: dates.map((d, v) => JSON.stringify({ d, v })).join('\n'),
    target: 'v',
    format: 'jsonl',
  })

  it('order months with a year, whatever the order of the file', async () => {
    const series = [
      monthsOf(2019, 36),
      monthsOf(2019, 36, ' ').map((one) => one.replace('Sep', 'Sept')),
      monthsOf(2020, 14, '/'),
      monthsOf(2015, 28, '. ', 3),
      monthsOf(2021, 12),
      monthsOf(1995, 132),
      monthsOf(2021, 24, ' 20'),
      monthsOf(2021, 24).map((one) => `20${one.slice(-2)} ${one.slice(0, 3)}`),
      monthsOf(2021, 24).map((one) => `"${one.slice(0, 3)} 1, 20${one.slice(-2)}"`),
      ['Januar', 'Februar', 'Mars', 'juni', 'JULI', 'septembre'].map((name) => `${name} 2021`),
      ['Jan 30', 'Feb 30', 'Mar 30', 'Jan 31', 'Feb 31', 'Mar 31'],
    ]
    const files = series.flatMap((dates) =>
      [all, newestFirst, mixed].map((order) => ({ dates, file: datesCsv(dates, order(dates)) })),
    )

    const found = await probeTables(files.flatMap(({ file }) => [file, named(file)]))

    for (const [i, { dates, file }] of files.entries())
      for (const one of found.slice(2 * i, 2 * i + 2))
        assert.deepEqual(one.series, all(dates), `${file.text.slice(0, 60)}: ${one.error?.[1]}`)
    assert.match(
      String(found[0]?.warnings),
      /^Parsed 'd' as months with a year: they may be days without a year, but/,
    )
  })

  it('order days without a year as the file does, even across a new year', async () => {
    const series = [
      daysOf('2023-01-01', 365),
      daysOf('2024-01-01', 366),
      daysOf('2023-11-10', 120),
      daysOf('2023-01-02', 52, 7),
      daysOf('2023-01-10', 22),
      daysOf('2023-01-01', 90).filter((one) => Number(one.slice(-2)) >= 10),
      daysOf('2023-02-03', 90).map((one) => one.replace(' ', '. ')),
    ]
    const files = series.flatMap((dates) => [
      ...[all(dates), newestFirst(dates)].map((order) => ({ dates, file: datesCsv(dates, order) })),
      { dates, file: jsonl(dates) },
    ])

    const found = await probeTables(files.flatMap(({ file }) => [file, named(file)]))

    for (const [i, { dates, file }] of files.entries())
      for (const one of found.slice(2 * i, 2 * i + 2)) {
        assert.deepEqual(one.series, all(dates), `${file.text.slice(0, 60)}: ${one.error?.[1]}`)
        assert.equal(one.warnings.length, 1, String(one.warnings))
      }
    assert.deepEqual(found[0]?.warnings, [
      "Parsed 'd' as days without a year: they may be months with a year, but only this reading puts the rows of the file in order.",
    ])
  })

  it('are rejected or unused if they are ambiguous and the file proves neither reading', async () => {
    const year = daysOf('2023-01-01', 364)
    const files = [
      datesCsv(year, mixed(year)),
      datesCsv(daysOf('2021-01-01', 730)),
      datesCsv(monthsOf(2021, 36).map((one) => `${one.slice(0, 3)} 01`)),
      datesCsv(NAMES.flatMap((name) => [19, 20, 21].map((number) => `${name}-${number}`))),
      datesCsv([...daysOf('2023-01-01', 40), '2022-05-01', ...daysOf('2023-02-10', 10)].slice(9)),
    ]

    const found = await probeTables(files.flatMap((file) => [file, named(file)]))

    for (const [i, file] of files.entries()) {
      const [unnamed, refused] = found.slice(2 * i, 2 * i + 2)
      assert.deepEqual(unnamed?.series, unnamed?.columns?.v?.map(Number), file.text.slice(0, 60))
      assert.match(
        String(unnamed?.warnings[0]),
        /^'d' isn't used as times\. .* months with a year or days without one/,
      )
      assert.equal(refused?.error?.[0], 'ambiguous_time')
      assert.match(
        String(refused?.error?.[1]),
        /\(row 1 is '\w+.\d\d'\)\. Write them as 2023-12 or 2023-12-31\.$/,
      )
    }
  })

  it('are rejected between two numbers if only the year-first reading puts the file in order', async () => {
    const days = Array.from({ length: 90 }, (_, i) => new Date(Date.UTC(2023, 0, 1 + i)))
    const month = (day: Date) => NAMES[day.getUTCMonth()]
    const dayFirst = days.map((day) => `${two(day.getUTCDate())}-${month(day)}-23`)
    const yearFirst = days.map((day) => `23-${month(day)}-${two(day.getUTCDate())}`)
    const [sorted, shuffledDays, refused, newest, ends] = await probeTables([
      datesCsv(dayFirst),
      datesCsv(dayFirst, shufflePositions(90)),
      datesCsv(yearFirst),
      named(datesCsv(yearFirst, newestFirst(yearFirst))),
      datesCsv(['30-Jan-23', '28-Feb-22', '30-Mar-21', '28-Apr-24']),
    ])

    assert.deepEqual(
      [sorted?.series, shuffledDays?.series, ends?.series],
      [all(days), all(days), [2, 1, 0, 3]],
    )
    assert.deepEqual(
      [refused, newest].map((one) => one?.error?.[0]),
      ['ambiguous_time', 'ambiguous_time'],
    )
    assert.match(String(refused?.error?.[1]), /the day or the year first, .* \(row 1 is '23-Jan-01'\)/)
  })

  it('are not times after other words, and never take precedence over a column that differs in every row', async () => {
    const rows = Array.from({ length: 60 }, (_, i) => i)
    const beforeDates = (name: string) => ({
      text: [
        'd,day,v',
        ...rows.map(
          (i) => `${name} ${10 + (i % 20)},${two(1 + (i % 28))}.0${1 + Math.floor(i / 28)}.2023,${i}`,
        ),
      ].join('\n'),
      target: 'v',
    })
    const words = ['Market', 'Decoder', 'Junction', 'Mayfair', 'Octavia', 'Marco']
    const twice = rows.map((i) => `${two(1 + (i % 12))}.01.2023,${two(1 + (i % 6))}.02.2023,${i}`)
    const [both, ...found] = await probeTables([
      { text: ['a,b,v', ...twice].join('\n'), target: 'v' },
      ...[...words, 'May'].map(beforeDates),
      ...words.map((word) => datesCsv(rows.map((i) => `${word} ${10 + ((i * 7) % 60)}`))),
    ])

    for (const one of found) assert.deepEqual(one.series, rows, one.error?.[1])
    for (const one of found.slice(0, words.length))
      assert.equal(one.warnings[0], "Parsed 'day' as dates, day first.")
    assert.match(String(found.at(-1)?.warnings), /^No column with times was found/)
    assert.match(
      String(both?.warnings[0]),
      /^'a' orders the rows, because it comes first, but .*\. Name the right one as time_column: 'a', 'b'\.$/,
    )
  })
})
