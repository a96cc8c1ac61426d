import assert from 'node:assert/strict'
import { learned, type TableRequest } from '../../support/builders/table-probe.ts'

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

describe('the series that a forecast chooses', () => {
  const about = async (requests: TableRequest[]) =>
    (await learned(requests)).map(({ target, warnings, error }) => [
      target ?? error?.[0],
      ...warnings.filter((one) => one.startsWith('The series is')),
    ])

  it('is the last column with numbers, or the last with texts that are all numbers where it is the only kind', async () => {
    const found = await about([
      jsonl((i) => ({ name: `n${i % 7}`, ts: day(i), price: wave(i) })),
      jsonl((i) => ({ price: `€ ${wave(i)}`, ts: day(i), note: 'x' })),
      jsonl((i) => ({ price: Number(wave(i)), ts: day(i), shop: `0${100 + (i % 3)}` })),
      csv('date,open,close', (i) => `${day(i)},${wave(i)},${wave(i + 1)}`),
      csv('date,name', (i) => `${day(i)},x`),
    ])

    assert.deepEqual(found, [['price'], ['price'], ['price'], ['close'], ['not_a_number']])
  })

  it('is no column that counts the rows, in any order, nor the times, unless there is no other', async () => {
    const found = await about([
      jsonl((i) => ({ price: wave(i), ts: day(i), id: 1000 + i })),
      csv('v,epoch', (i) => `${wave(i)},${1_600_000_000 + 3600 * ((i * 7) % 40)}`),
      csv('v,year', (i) => `${wave(i)},${1980 + i}`),
      csv('day,v', (i) => `${day(i)},${i}`),
      csv('v,t', (i) => `${wave(i)},${i ** 2}`, { time: 't' }),
    ])

    assert.deepEqual(found, [['price'], ['v'], ['v'], ['v'], ['v']])
  })

  it('is no column of texts where another one has numbers', async () => {
    const found = await about([
      jsonl((i) => ({ ts: day(i), sales: i % 9, store_id: '17' })),
      jsonl((i) => ({ order_no: `${10_000 + ((i * 37) % 101)}`, ts: day(i), value: Number(wave(i)) })),
      jsonl((i) => ({ ts: day(i), row: i, zip: `${8001 + (i % 5)}`, at: '2021' })),
      jsonl((i) => ({ ts: day(i), sales: wave(i), rank: i % 9 }), { named: 'rank' }),
    ])

    const texts = (name: string, series: string) =>
      `The series is '${series}', not '${name}': it holds numbers as texts. Name the right one as target_column.`
    assert.deepEqual(found, [
      ['sales', texts('store_id', 'sales')],
      ['value', texts('order_no', 'value')],
      ['at', texts('zip', 'at')],
      ['rank', texts('sales', 'rank')],
    ])
  })

  it('is no column of times, even or not', async () => {
    const ms = (i: number) => 1_672_531_200_000 + 60_000 * i + ((i * 7919) % 3000)
    const month = (i: number) =>
      Number(
        day(i * 31)
          .slice(0, 7)
          .replace('-', ''),
      )
    const found = await about([
      csv('v,w,ts', (i) => `${wave(i)},${i % 6},${ms(i)}`),
      csv('v,date', (i) => `${i % 7},${day(i).replaceAll('-', '')}`),
      csv('v,month', (i) => `${i % 7},${month(i)}`),
      jsonl((i) => ({ v: wave(i), t: `${Math.floor(ms(i) / 1000)}` })),
      csv('name,ts', (i) => `n${i},${ms(i)}`),
    ])

    const since = (name: string, series: string, unit: string) =>
      `The series is '${series}', not '${name}': its numbers look like ${unit} since 1970. Name the right one as target_column.`
    assert.deepEqual(found, [
      ['w', since('ts', 'w', 'milliseconds')],
      ['v'],
      ['v'],
      ['v', since('t', 'v', 'seconds')],
      ['ts'],
    ])
  })

  it('is no part of a time, by its name and its numbers', async () => {
    const found = await about([
      csv('date,sales,month,Year', (i) => `${day(i)},${wave(i)},${1 + (i % 12)},${2021 + (i % 3)}`),
      csv('sales,year', (i) => `${wave(i)},${1900 + i + Number(i > 20)}`),
      csv(
        'date,v,day_of_week,dayOfYear,weekday',
        (i) => `${day(i)},${i % 9},${i % 7},${i + 1},${1 + (i % 7)}`,
      ),
      csv('date,v,order_month', (i) => `${day(i)},${wave(i)},${1 + (i % 12)}`),
      csv('date,order_month,v', (i) => `${day(i)},${1 + (i % 12)},${wave(i)}`),
      csv('date,v,sales_per_day', (i) => `${day(i)},${wave(i)},${1 + (i % 12)}`),
      csv('date,v,week', (i) => `${day(i)},${wave(i)},${40 + (i % 30)}`),
      csv('date,v,ppm', (i) => `${day(i)},${wave(i)},${1900 + ((i * 7) % 90)}`),
      csv('date,month', (i) => `${day(i)},${1 + (i % 12)}`),
    ])

    assert.deepEqual(found, [
      ['sales'],
      ['sales'],
      ['v'],
      [
        'v',
        "The series is 'v', not 'order_month': its numbers look like parts of times. Name the right one as target_column.",
      ],
      ['v'],
      ['sales_per_day'],
      ['week'],
      ['ppm'],
      ['month'],
    ])
  })

  it('may be numbers like times in no order where other columns hold times', async () => {
    const cents = (i: number) => 1_100_000_000 + ((i * 7919) % 1000) * 700_000
    const dated = (i: number) => `${day(i)},${i % 9},${cents(i)}`
    const found = await about([
      csv('date,orders,cents', dated),
      csv('ts,orders,cents', (i) => `${1_700_000_000 + i * 60 + (i % 7)},${i % 9},${cents(i)}`),
      csv('year,orders,cents', (i) => `${2000 + i},${i % 9},${cents(i)}`),
      csv('date,orders,cents', dated, { named: 'orders' }),
      csv('date,orders,cents', dated, { named: 'cents' }),
      csv('orders,cents', (i) => `${i % 9},${cents(i)}`),
    ])

    const doubtful =
      "The series is 'cents', though its numbers look like seconds since 1970. Name the right one as target_column."
    assert.deepEqual(found.slice(0, 5), [
      ['cents', doubtful],
      [
        'cents',
        doubtful,
        "The series is 'cents', not 'ts': its numbers look like seconds since 1970. Name the right one as target_column.",
      ],
      ['cents', doubtful],
      ['orders'],
      ['cents'],
    ])
    assert.equal(found[5]?.[0], 'orders')
  })

  it('gets a warning where another column is nearly one of numbers, and none for dates and times', async () => {
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
