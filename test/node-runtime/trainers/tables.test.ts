import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { pythonOf } from '../../support/servers/trainer.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

interface Learned {
  columns?: Record<string, string[]>
  series?: number[]
  error?: [code: string, message: string]
  warnings: string[]
}

/** Reads CSV files as the trainers of tables do; `target` names a column to put in order of time. */
async function learned(files: { text: string; target?: string; time?: string }[]): Promise<Learned[]> {
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
})
