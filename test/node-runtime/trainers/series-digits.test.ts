import assert from 'node:assert/strict'
import { dated, learned, shuffled, type TableRequest } from '../../support/builders/table-probe.ts'

describe('numbers of 9 to 14 digits in a column with times', () => {
  const hours = Array.from({ length: 200 }, (_, i) => new Date(Date.UTC(2021, 0, 30, i, 30)))
  const days = Array.from({ length: 400 }, (_, i) => new Date(Date.UTC(2021, 0, 1 + i, 6)))
  /** Writes times by the letters of a notation, as a CSV file that lost its leading zeros. */
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

  it('are dates with a time where their digits or the order of the file prove it', async () => {
    const withCentury = ['YYYYMMDD', 'DDMMYYYY', 'MMDDYYYY'].flatMap((date) =>
      ['HH', 'HHmm', 'HHmmss'].map((clock) => date + clock),
    )
    const short = ['DDMMYYHHmm', 'MMDDYYHHmm', 'YYMMDDHHmm', 'DDMMYYHHmmss', 'MMDDYYHHmmss', 'HHmmDDMMYY']
    const cases = [...withCentury, 'HHmmDDMMYYYY', ...short].flatMap((notation) =>
      [hours, days].flatMap((times) =>
        [
          inOrder(times.length),
          newestFirst(times.length),
          ...(notation.includes('YYYY') ? [shuffled(times.length)] : []),
        ].flatMap((order) =>
          [named, unnamed].map((asked) => ({
            notation,
            file: asked(dated(written(times, notation), order)),
          })),
        ),
      ),
    )

    const found = await learned(cases.map(({ file }) => file))

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

  it('are refused where they may be dates that would change the order, and never used unasked', async () => {
    const early = days.filter((at) => at.getUTCDate() <= 12)
    const open = ['DDMMYYHHmm', 'MMDDYYHHmm', 'DDMMYYHHmmss'].flatMap((notation) => {
      const file = dated(written(hours, notation), shuffled(hours.length))
      return [{ ...named(file) }, { ...unnamed(file) }]
    })
    const points = dated(
      written(hours, 'DDMMYYYYHH').map((text) => `${text}.30`),
      inOrder(hours.length),
    )
    const [unproven, ...found] = await learned([
      named(dated(written(early, 'DDMMYYYYHH'), shuffled(early.length))),
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
    assert.deepEqual([inFile(1), inFile(7)], [shuffled(200), inOrder(200)])
  })

  it('are times since 1970 only where one unit puts all of them before 2100', async () => {
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
      [inOrder(200), shuffled(200)].flatMap((order, at) =>
        [named, unnamed].map((asked) => ({ unit, isShuffled: at === 1, file: asked(dated(dates, order)) })),
      ),
    )

    const [both, unasked, ...found] = await learned([
      named(dated(mixed)),
      unnamed(dated(mixed)),
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
