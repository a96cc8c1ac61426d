import assert from 'node:assert/strict'
import { probeTables, type TableRequest } from '../../support/builders/probes/table-probe.ts'

const ROWS = Array.from({ length: 40 }, (_, i) => i)
const wave = (i: number) => (50 + 10 * Math.sin(i)).toFixed(2)
const day = (i: number) => new Date(Date.UTC(2021, 0, 1 + i)).toISOString().slice(0, 10)

const jsonl = (row: (i: number) => object, more: Partial<TableRequest> = {}): TableRequest => ({
  text: ROWS.map((i) => JSON.stringify(row(i))).join('\n'),
  format: 'jsonl',
  target: '',
  ...more,
})
const csv = (names: string, row: (i: number) => string, more: Partial<TableRequest> = {}): TableRequest => ({
  text: [names, ...ROWS.map(row)].join('\n'),
  target: '',
  ...more,
})

describe("a forecast's target series", () => {
  const about = async (requests: TableRequest[]) =>
    (await probeTables(requests)).map(({ target, warnings, error }) => [
      target ?? error?.[0],
      ...warnings.filter((one) => one.startsWith('The series is')),
    ])

  const lastOf = (series: string, ...names: string[]) =>
    `The series is '${series}', the last column of numbers, not ${names.map((one) => `'${one}'`).join(', ')}. Name the right one as target_column.`

  it('is the last numeric column, or the last column of numbers as text if there is no other', async () => {
    const found = await about([
      jsonl((i) => ({ name: `n${i % 7}`, ts: day(i), price: wave(i) })),
      jsonl((i) => ({ price: `€ ${wave(i)}`, ts: day(i), note: 'x' })),
      jsonl((i) => ({ price: Number(wave(i)), ts: day(i), shop: `0${100 + (i % 3)}` })),
      csv('date,open,close', (i) => `${day(i)},${wave(i)},${wave(i + 1)}`),
      csv('date,name', (i) => `${day(i)},x`),
    ])

    assert.deepEqual(found, [
      ['price'],
      ['price'],
      ['price'],
      ['close', lastOf('close', 'open')],
      ['not_a_number'],
    ])
  })

  it('is reported missing with a reason if a column is nearly numeric', async () => {
    const [sessions, names] = await probeTables([
      csv('day,sessions', (i) => `${day(i)},"${1 + (i % 9)},${100 + i}"`),
      csv('day,name', (i) => `${day(i)},x${i % 3}`),
    ])

    assert.match(
      String(sessions?.error),
      /no column with numbers to forecast\. 'sessions': .*thousands separator; write it with neither/,
    )
    assert.match(String(names?.error), /no column with numbers to forecast\.$/)
  })

  it('is never the times or a column that counts rows, in any order, unless there is no other column', async () => {
    const found = await about([
      jsonl((i) => ({ price: wave(i), ts: day(i), id: 1000 + i })),
      csv('v,epoch', (i) => `${wave(i)},${1_600_000_000 + 3600 * ((i * 7) % 40)}`),
      csv('v,year', (i) => `${wave(i)},${1980 + i}`),
      csv('day,v', (i) => `${day(i)},${i}`),
      csv('v,t', (i) => `${wave(i)},${i ** 2}`, { time: 't' }),
    ])

    assert.deepEqual(found, [['price'], ['v'], ['v'], ['v'], ['v']])
  })

  it('is never a text column if another column is numeric', async () => {
    const found = await about([
      jsonl((i) => ({ ts: day(i), sales: i % 9, store_id: '17' })),
      jsonl((i) => ({ order_no: `${10_000 + ((i * 37) % 101)}`, ts: day(i), value: Number(wave(i)) })),
      jsonl((i) => ({ ts: day(i), row: i, zip: `${8001 + (i % 5)}`, at: '17' })),
      jsonl((i) => ({ ts: day(i), sales: wave(i), rank: i % 9 }), { named: 'rank' }),
    ])

    const texts = (name: string, series: string) =>
      `The series is '${series}', not '${name}': it holds numbers as text. Name the right one as target_column.`
    assert.deepEqual(found, [
      ['sales', texts('store_id', 'sales')],
      ['value', texts('order_no', 'value')],
      ['at', texts('zip', 'at')],
      ['rank', texts('sales', 'rank')],
    ])
  })

  it('is never a column of times, evenly spaced or not', async () => {
    const ms = (i: number) => 1_672_531_200_000 + 60_000 * i + ((i * 7919) % 3000)
    const month = (i: number) =>
      Number(
        day(i * 31)
          .slice(0, 7)
          .replace('-', ''),
      )
    const found = await about([
      csv('v,w,ts', (i) => `${wave(i)},${i % 6},${ms(i)}`),
      csv('v,date', (i) => `${i % 9},${day(i).replaceAll('-', '')}`),
      csv('v,month', (i) => `${i % 7},${month(i)}`),
      jsonl((i) => ({ v: wave(i), t: `${Math.floor(ms(i) / 1000)}` })),
      csv('name,ts', (i) => `n${i},${ms(i)}`),
    ])

    const since = (name: string, series: string, unit: string) =>
      `The series is '${series}', not '${name}': its numbers look like ${unit} since 1970. Name the right one as target_column.`
    assert.deepEqual(found, [
      ['w', lastOf('w', 'v'), since('ts', 'w', 'milliseconds')],
      ['v'],
      ['v'],
      ['v', since('t', 'v', 'seconds')],
      ['ts'],
    ])
  })

  const timed = (
    name: string,
    value: (time: Date, i: number) => number | string,
    start: string,
    hours = 24,
  ): TableRequest =>
    csv(`t,v,${name}`, (i) => {
      const time = new Date(Date.parse(`${start}Z`) + i * hours * 3_600_000)
      return `${time.toISOString().slice(0, hours === 24 ? 10 : 19)},${wave(i)},${value(time, i)}`
    })

  it('is never a column that equals a component of the times, whatever its name', async () => {
    const weekFromMonday = (time: Date) => Math.ceil((time.getUTCDate() + 4) / 7)
    const found = await about([
      timed('an', (time) => time.getUTCFullYear(), '2021-11-15T00:00'),
      timed('annee', () => 2022, '2022-03-01T00:00'),
      timed('mes', (time) => time.getUTCMonth() + 1, '2021-01-10T00:00'),
      timed('mon', (time) => time.getUTCMonth(), '2021-01-10T00:00', 30 * 24),
      timed('trimestre', (time) => Math.ceil((time.getUTCMonth() + 1) / 3), '2021-03-12T00:00', 48),
      timed('jour', (time) => time.getUTCDate(), '2022-05-25T00:00'),
      timed('dia', (time) => (time.getUTCDay() + 3) % 7, '2022-05-25T00:00'),
      timed('wd', (time, i) => (i % 9 === 4 ? '' : `${10 + time.getUTCDay()}.0`), '2022-05-25T00:00'),
      timed('uge', weekFromMonday, '2021-01-01T00:00', 12),
      timed('stunde', (time) => (time.getUTCHours() + 2) % 24, '2021-10-20T00:00', 5),
      timed('tag', (time) => new Date(+time - 9 * 3_600_000).getUTCDate(), '2021-10-20T00:00', 7),
      csv('v,min,zeit', (i) => `${wave(i)},${(i * 7) % 60},${1_599_998_400 + 420 * i}`),
      jsonl((i) => ({ d: day(i), v: wave(i), dag: `${Number(day(i).slice(8))}` })),
    ])

    assert.deepEqual(
      found,
      found.map(() => ['v']),
    )
  })

  it('is never an ordered year or a repeating counter when no dates distinguish the rows', async () => {
    const months = (i: number) => 1 + (i % 12)
    const found = await about([
      csv('v,year', (i) => `${wave(i)},${1900 + i + Number(i > 20)}`),
      csv('v,Jahr,Monat', (i) => `${wave(i)},${2021 + Math.floor(i / 12)},${months(i)}`),
      csv('v,Jahr,Monat', (i) => `${wave(i)},${2024 - Math.floor(i / 12)},${13 - months(i)}`),
      csv('v,ora', (i) => `${wave(i)},${Math.floor(i / 2) % 8}`),
      csv('d,v,hour', (i) => `${day(Math.floor(i / 12))},${wave(i)},${2 * (i % 12) + 1}`),
      csv('d,v,hour', (i) => `${day(Math.floor(i / 12))},${wave(i)},${8 + (i % 12)}`),
      csv('v,flag', (i) => `${wave(i)},${i % 2}`),
      csv('v,total', (i) => `${wave(i)},${i === 39 ? 0 : i * i}`),
      csv('year,v,plants', (i) => `${1980 + i},${wave(i)},${Math.floor(i / 3)}`),
      csv('d,v,sales_day', (i) => `${day(i)},${wave(i)},${100 + ((i * 37) % 800)}`),
      csv('v,grade', (i) => `${wave(i)},${(i * i) % 5}`),
      csv('v,fixed', (i) => `${wave(i)},2000`),
    ])

    assert.deepEqual(found, [
      ['v'],
      ['v'],
      ['v'],
      ['v'],
      ['time_in_two_columns'],
      ['time_in_two_columns'],
      ['flag', lastOf('flag', 'v')],
      ['total', lastOf('total', 'v')],
      ['plants', lastOf('plants', 'v')],
      ['sales_day', lastOf('sales_day', 'v')],
      ['grade', lastOf('grade', 'v')],
      ['fixed', lastOf('fixed', 'v')],
    ])
  })

  it('may match a component of the times in some rows or by chance, with a warning if it is the only candidate', async () => {
    const found = await about([
      timed('shop', () => 1, '2021-01-01T00:00', 6),
      timed('treated', (time) => Number(time.getUTCDate() > 1), '2021-01-01T00:00', 1),
      timed('sunday', (time) => Number(time.getUTCDay() === 0), '2021-01-01T00:00'),
      timed('last', (time, i) => time.getUTCMonth() + 1 + Number(i === 39), '2021-01-10T00:00'),
      timed('month', (_, i) => 1 + (i % 12), '2021-01-10T00:00'),
      csv('d,v,fiscal_year', (i) => `${day(i)},${wave(i)},${2021 + Number(i > 20)}`),
      timed('ppm', (_, i) => 1900 + ((i * 7) % 90), '2021-01-10T00:00'),
      csv(
        'd,v,kept,due',
        (i) => `${day(i)},${wave(i)},${1 + ((i * i) % 11)},${i < 3 ? `2022-01-0${1 + ((i * i) % 11)}` : ''}`,
      ),
      csv('date,mes', (i) => `${day(3 * i)},${Number(day(3 * i).slice(5, 7))}`),
      csv('date,v', (i) => `${day(i)},${i + 1}`),
      csv('v,stamp', (i) => `${i % 7},${day(i).replaceAll('-', '')}`),
    ])

    const part = (name: string) =>
      `The series is '${name}', though its numbers look like parts of times. Name the right one as target_column.`
    const named = (name: string) =>
      `The series is 'v', not '${name}': its numbers look like parts of times. Name the right one as target_column.`
    assert.deepEqual(found, [
      ['shop', lastOf('shop', 'v')],
      ['treated', lastOf('treated', 'v')],
      ['sunday', lastOf('sunday', 'v')],
      ['last', lastOf('last', 'v')],
      ['v', named('month')],
      ['v', named('fiscal_year')],
      ['ppm', lastOf('ppm', 'v')],
      ['kept', lastOf('kept', 'v')],
      ['mes', part('mes')],
      ['v', part('v')],
      ['v', part('v')],
    ])
  })

  it('may be unordered numbers that look like times if another column contains times', async () => {
    const cents = (i: number) => 1_100_000_000 + ((i * 7919) % 1000) * 700_000
    const dated = (i: number) => `${day(i)},${i % 9},${cents(i)}`
    const found = await about([
      csv('date,orders,cents', dated),
      csv('ts,orders,cents', (i) => `${1_700_000_000 + i * 60 + (i % 7)},${i % 9},${cents(i)}`),
      csv('year,orders,cents', (i) => `${2000 + i},${i % 9},${cents(i)}`),
      csv('date,orders,cents', dated, { named: 'orders' }),
      csv('date,orders,cents', dated, { named: 'cents' }),
      csv('orders,cents', (i) => `${(i * i) % 9},${cents(i)}`),
    ])

    const doubtful =
      "The series is 'cents', though its numbers look like seconds since 1970. Name the right one as target_column."
    assert.deepEqual(found.slice(0, 5), [
      ['cents', doubtful, lastOf('cents', 'orders')],
      [
        'cents',
        doubtful,
        lastOf('cents', 'orders'),
        "The series is 'cents', not 'ts': its numbers look like seconds since 1970. Name the right one as target_column.",
      ],
      ['cents', doubtful],
      ['orders'],
      ['cents'],
    ])
    assert.equal(found[5]?.[0], 'orders')
  })

  it('causes a warning if another column is nearly numeric, but not for dates and times', async () => {
    const found = await about([
      csv('date,price,station', (i) => `${day(i)},${wave(i)} kWh,${8000 + (i % 3)}`),
      csv('v,level', (i) => `${wave(i)},${i === 3 ? 'low' : i % 9}`),
      csv('day,at,name,v', (i) => `${day(i).replaceAll('-', ' / ')},${i % 24}:30,x${i},${wave(i)}`),
    ])

    assert.deepEqual(found, [
      [
        'station',
        "The series is 'station', not 'price': it holds numbers with a unit or sign, such as '50.00 kWh' (row 1); " +
          'write the number alone, all in one unit. Name the right one as target_column.',
      ],
      [
        'v',
        "The series is 'v', not 'level': 39 of 40 values are numbers; row 4 is 'low'. Name the right one as target_column.",
      ],
      ['v'],
    ])
  })
})
