import assert from 'node:assert/strict'
import { runQueries } from '../support/builders/probes/query-probe.ts'
import { requireToolPython } from '../support/servers/nodes/tools.ts'

const lines = (...all: string[]) => `${all.join('\n')}\n`
const many = (count: number, row: (i: number) => string) => Array.from({ length: count }, (_, i) => row(i))

describe('query_table on CSV files', function () {
  this.timeout(60_000)
  let python: string

  before(async function () {
    this.timeout(300_000)
    python = await requireToolPython(this)
  })

  const query = async (text: string, sql = 'from data') => {
    const [result] = await runQueries(python, [{ text, sql }])
    return result ?? {}
  }

  it('rejects a file whose rows and header differ in the number of fields, and reports the line and the counts', async () => {
    const cases: [text: string, message: string][] = [
      [
        lines('time,temp', ...many(500, (i) => `${i},1.5`), 'time,temp,hum', '1,2,3'),
        'line 502: 3 fields where the header has 2',
      ],
      [
        lines('t;v', ...many(30_000, (i) => `${i};x`), ...many(5, (i) => `${i};x;y`)),
        'line 30002: 3 fields where the header has 2',
      ],
      [lines('a,b', '1,2', '3,4', ...many(50, (i) => `${i},2,3`)), 'line 4: 3 fields where the header has 2'],
      [lines('a,b', ...many(50, (i) => `${i},2,3`)), 'line 2: 3 fields where the header has 2'],
      [lines('a,b,c', ...many(50, (i) => `${i},2`)), 'line 2: 2 fields where the header has 3'],
      [lines('Report of May', '', 'a,b', '1,2'), 'line 3: 2 fields where the header has 1'],
      [lines('a\tb', '1\t"x', 'y"', '2'), 'line 4: 1 fields where the header has 2'],
      [lines('a,b', '1,"2', '3,4'), 'line 2: a quote is opened and never closed'],
      [lines('a,b', '1,"2"3'), 'line 2: text after the closing quote of a field'],
      [lines('a,b', '1,2\r', '3,4'), 'line 2: ends in CRLF, but the lines before it end in LF'],
    ]

    const found = await runQueries(
      python,
      cases.map(([text]) => ({ text })),
    )

    for (const [i, [text, message]] of cases.entries())
      assert.equal(found[i]?.error, `file_url: ${message}`, text.slice(0, 60))
  })

  it('treats no row or cell as a comment', async () => {
    const units = await query(
      lines('unit,rent', ...many(50, (i) => `${i % 5 === 0 ? '#' : ''}${100 + i},${i}`)),
      'select count(*) as n, sum(rent) as rent, max(unit) as unit from data',
    )
    const cells = await query(lines('id;name;order', ...many(40, (i) => `${i};B;${i % 2 ? '#' : ''}${i}`)))
    const first = await query(lines('#,n', '1,2', '3,4'), 'select sum("#") as s from data')

    assert.deepEqual(units.rows, [{ n: 50, rent: 1_225, unit: '149' }])
    assert.deepEqual(
      cells.rows?.map(({ order }) => order),
      many(40, (i) => `${i % 2 ? '#' : ''}${i}`),
    )
    assert.deepEqual(first.rows, [{ s: 4 }])
  })

  it('detects the delimiter from the header, whatever the rows contain', async () => {
    const geo = await query(lines('Lat;Lon', '46,9;7,4', '47,1;8,5'))
    const bars = await query(
      lines('Min|Max', ...many(30, (i) => `${i},5|${i},7`)),
      'select count(Min) as n from data',
    )
    const named = await query(
      '\ufeffsep=;\r\nName, first;Wert\r\nx;1\r\ny;2\r\n',
      'select sum(Wert) as s from data',
    )

    assert.deepEqual(geo.rows, [
      { Lat: '46,9', Lon: '7,4' },
      { Lat: '47,1', Lon: '8,5' },
    ])
    assert.deepEqual([bars.rows, named.rows], [[{ n: 30 }], [{ s: 3 }]])
  })

  it('asks for the delimiter when two delimiters fit the header', async () => {
    const { error } = await query(lines('name;first,age', 'a;b,3', 'c;d,4'))

    assert.equal(
      error,
      'file_url: line 1: the delimiter could be "," or ";"; add the line sep=, or sep=; before the header',
    )
  })

  it('uses the first line as column names, and adds a note when it looks like values', async () => {
    const years = await query(
      lines('Country,1990,1991', 'Chad,1,2', 'Mali,3,4'),
      'select sum("1990") as s from data',
    )
    const rows = await query(lines('1.5,x', '2.5,y'))
    const named = await query(lines('a,b', '1.5,x'))
    const cases = await query(lines('ID,id', '1,2'))

    assert.deepEqual([years.rows, rows.rows], [[{ s: 4 }], [{ '1.5': 2.5, x: 'y' }]])
    assert.match(String(rows.note), /^the first line is read as the column names/)
    assert.deepEqual([years.note, named.note], [undefined, undefined])
    assert.deepEqual(cases.rows, [{ ID: 1, id_1: 2 }])
  })

  it('adds a note about numbers in other notations, which it compares as text', async () => {
    const prices = await query(
      lines('Ort;Betrag;Anzahl', 'a, b;"9,5";1', 'c, 4;10,25;2'),
      'select max(Betrag) as m from data',
    )
    const words = await query(lines('a|b', '1,5|x', 'one, two|y'))

    assert.deepEqual([prices.rows, words.note], [[{ m: '9,5' }], undefined])
    const signs = await query(lines('a|b', '12 €|$3.50', '7\u00a0€|$10'))
    const note = 'numbers written as 9,5 or $1 200 are text, and compared as such: '
    assert.deepEqual([prices.note, signs.note], [`${note}"Betrag"`, `${note}"a", "b"`])
    const noted = [
      ['9,5', '-', '10,25'],
      ['$9.50', 'N/A', '$10.25'],
      ['834.000', '1.234.567'],
      ['9 500', '1 000 000'],
      ["9'500.50", "10'250.25"],
      ['9.5  ', '10.25'],
      ['+9.5', '-1.2'],
      ['9,5E+3', '1,0E+4'],
      ['inf', '10.5'],
      ['9\u00a0', '10'],
    ]
    const plain = [
      ['02134', 'NA'],
      ['+41791234567', '-'],
      ['2023_01', '2023_02'],
      ['03.04.2021', '05.06.2021'],
      ['10.0.0.1', '192.168.1.20'],
      ['-', '+'],
      ['.', 'x'],
    ]
    const found = await runQueries(
      python,
      [...noted, ...plain].map((cells) => ({
        text: lines('a;b', ...cells.map((cell, i) => `x${i};${cell}`)),
      })),
    )
    assert.deepEqual(
      found.map(({ note: own }) => own),
      [...noted.map(() => `${note}"b"`), ...plain.map(() => undefined)],
    )
  })

  it('reads markers of missing values in numbers and dates as NULL, and adds a note', async () => {
    const { rows, columns, note } = await query(
      lines('n,x,d,t', '100,1.5,2020-01-02,NA', 'NA,-,n/a,DE', ' 20 ,2.5,2021-03-04,CH'),
    )

    assert.deepEqual(
      columns?.map(({ type }) => type),
      ['BIGINT', 'DOUBLE', 'DATE', 'VARCHAR'],
    )
    assert.deepEqual(rows?.map(Object.values), [
      [100, 1.5, '2020-01-02', 'NA'],
      [null, null, null, 'DE'],
      [20, 2.5, '2021-03-04', 'CH'],
    ])
    assert.match(String(note), /^strings such as NA or - count as missing values in "/)
  })

  it('reads codes, ids and times the same way with and without missing value markers', async () => {
    const columns: [kind: string, values: string[]][] = [
      ['VARCHAR', ['02134', '10001']],
      ['VARCHAR', ['+41791234567', '+41797654321']],
      ['VARCHAR', ['2023_01', '2023_02']],
      ['VARCHAR', ['2020.01.02', '2020.03.04']],
      ['VARCHAR', ['07', '7']],
      ['BIGINT', ['1234567890123456789', '1234567890123456788']],
      ['HUGEINT', ['89410012345678901234', '89410012345678901235']],
      ['TIMESTAMP WITH TIME ZONE', ['2024-01-01 10:00:00+02:00', '2024-01-01 09:30:00+01:00']],
      ['TIME', ['10:30', '09:15']],
      ['BOOLEAN', ['true', 'false']],
    ]
    const marks = ['NA', '-', 'nan', ' null', 'n/a  ', '#REF!']
    const found = await runQueries(
      python,
      marks.map((mark) => ({
        text: lines(
          columns.map((_, i) => `c${i}`).join(';'),
          ...[0, 1].map((row) => columns.map(([, values]) => values[row]).join(';')),
          columns.map(() => mark).join(';'),
        ),
      })),
    )

    for (const [i, { rows, columns: types }] of found.entries()) {
      assert.deepEqual(
        types?.map(({ type }) => type),
        columns.map(([kind]) => kind),
        marks[i],
      )
      for (const [column, [kind, values]] of columns.entries()) {
        const cells = rows?.map((row) => row[`c${column}`]) ?? []
        assert.equal(new Set(cells).size, 3)
        if (kind === 'VARCHAR') assert.deepEqual(cells, [...values, marks[i]?.trim()])
        else assert.equal(cells[2], null)
      }
    }
  })

  it('treats NaN as a missing value', async () => {
    const sql = 'select count(*) filter (b > 100) as n, max(b) as m from data'
    const found = await runQueries(
      python,
      ['nan', 'NaN', '-nan', 'NAN'].flatMap((mark) =>
        ['50', '50.5'].map((low) => ({ text: lines('a,b', `x,${mark}`, `y,${low}`, 'z,150'), sql })),
      ),
    )

    for (const { rows } of found) assert.deepEqual(rows, [{ n: 1, m: 150 }])
  })

  it('reads wide files with markers of missing values in every column', async () => {
    const cells = (of: (i: number) => string) => many(300, of).join(',')
    const { rows, columns } = await query(
      lines(
        cells((i) => `c${i}`),
        ...many(20, (row) => cells((i) => ((i + row) % 9 ? `${i}.${row}` : 'NA'))),
      ),
      'select c0, c299, count(c7) over () as n from data limit 1',
    )

    assert.deepEqual(
      columns?.map(({ type }) => type),
      ['DOUBLE', 'DOUBLE', 'BIGINT'],
    )
    assert.deepEqual(rows, [{ c0: null, c299: 299, n: 18 }])
  })

  it('reads files with line breaks in the header and in the first row', async () => {
    const sql = 'select count(*) as n, max(Bemerkung) as m from data'
    const text = 'Datum;"Menge\n(kg)";Bemerkung\r\n2024-01-02;1;"a\nb"\r\n2024-01-03;2;c\r\n'
    const [excel, mixed, surplus, marked] = await runQueries(python, [
      { text, sql },
      { text: text.replace('a\nb', 'a\r\nb'), sql },
      { text: text.replaceAll('\r\n', ';;\r\n').replace(';;', ''), sql },
      {
        text: `\ufeff"Wie, warum?",b\r\n"x\ny",1\r\nz,2\r\n`,
        sql: 'select count(*) as n, sum(b) as m from data',
      },
    ])

    for (const found of [excel, mixed, surplus]) assert.deepEqual(found?.rows, [{ n: 2, m: 'c' }])
    assert.deepEqual(marked?.rows, [{ n: 2, m: 3 }])
  })

  it('names the line whose bytes are not UTF-8', async () => {
    const [latin, named, behind, wide] = await runQueries(python, [
      { base64: Buffer.from('a,b\n1,2\n3,caf\u00e9\n', 'latin1').toString('base64') },
      { base64: Buffer.from('gr\u00f6\u00dfe;ort\n1;Bern\n', 'latin1').toString('base64') },
      { base64: Buffer.from('sep=\t\r\na\t"\u00b0C"\r\n1\t2\r\n', 'latin1').toString('base64') },
      { base64: Buffer.from('\ufeffa,b\n1,2\n', 'utf16le').toString('base64') },
    ])

    assert.equal(latin?.error, 'file_url: line 3: not valid UTF-8')
    assert.equal(named?.error, 'file_url: line 1: not valid UTF-8')
    assert.equal(behind?.error, 'file_url: line 2: not valid UTF-8')
    assert.equal(wide?.error, 'file_url: line 1: not UTF-8 (it looks like UTF-16)')
  })

  it('names the line where column names are missing or a quote is never closed', async () => {
    const texts = ['sep=;\n', '\na,b\n1,2\n', '   \n1\n', 'sep=,\n\na,b\n1,2\n', '"a,b\n1,2\n']
    const found = await runQueries(
      python,
      texts.map((text) => ({ text })),
    )

    const blank = 'blank where the names of the columns should be'
    assert.deepEqual(
      found.map(({ error }) => error?.replace('file_url: ', '')),
      [
        `line 2: ${blank}`,
        `line 1: ${blank}`,
        `line 1: ${blank}`,
        `line 2: ${blank}`,
        'line 1: a quote is opened and never closed',
      ],
    )
  })

  it('does not convert text that only DuckDB considers booleans', async () => {
    const { rows } = await query(lines('sex,ok,paid', 'F,true,no', 'F,FALSE,yes'))

    assert.deepEqual(rows, [
      { sex: 'F', ok: true, paid: 'no' },
      { sex: 'F', ok: false, paid: 'yes' },
    ])
  })

  it('adds its notes to a query error, because they may explain it', async () => {
    const [found] = await runQueries(python, [
      { text: lines('a;b', '1.234;x', '980;y'), sql: 'select avg(a) from data' },
    ])

    assert.match(String(found?.error), /^sql: .*avg.*; dots in "a" may be thousands separators/)
  })

  it('reads numbers with possible thousands separators as text, or adds a note about how it reads them', async () => {
    const cases: [text: string, first: string | number, note: RegExp | undefined][] = [
      [
        lines('a;b', '1.234;x', '980;y'),
        '1.234',
        /^dots in "a" may be thousands separators, so these columns are text: cast /,
      ],
      [
        lines('a;b;c', '126.949;118,69;48.3984', '980;3,2;47.5'),
        '126.949',
        /dots in "a" may be thousands separators/,
      ],
      [lines('a|b', '-1.234|1,5', '980|12,75'), '-1.234', /cast replace\("a", '\.', ''\) or "a" to double$/],
      [lines('a\tb', '1.234\t12,50 €', '980\t7,25 €'), '1.234', /dots in "a" may be thousands separators/],
      [lines('a|b', '1.234|€ 12,50', '980|€ 7,25'), '1.234', /dots in "a" may be thousands separators/],
      [lines('a,b', '1.234,"$1,250"', '980,"$2,500"'), 1.234, /dots in "a" are read as decimal points/],
      [lines('a,b', '1.234,x', '980,y'), 1.234, /^dots in "a" are read as decimal points/],
      [lines('a|b', '1.234|1,555', '980|2,255'), 1.234, /dots in "a" are read as decimal points/],
      [lines('a;b', '1.234;1.5', '980;2.25'), 1.234, /dots in "a" are read as decimal points/],
      [lines('a,b', '1.234,1.5', '980,2.25'), 1.234, undefined],
      [lines('a;b', '1.234;x', '0.980;y'), 1.234, undefined],
      [lines('a;b', '1.2345;x', '98;y'), 1.2345, undefined],
    ]

    const found = await runQueries(
      python,
      cases.map(([text]) => ({ text })),
    )

    for (const [i, [text, first, note]] of cases.entries()) {
      assert.equal(found[i]?.rows?.[0]?.['a'], first, text)
      if (note) assert.match(String(found[i]?.note), note)
      else assert.equal(found[i]?.note, undefined, text)
    }
  })

  it('trims spaces around cells, as training does', async () => {
    const spaced = await query(lines('price, city, "kind"', '200, Zug, "a, b"', '300, , "c"', '5, Bern, "d"'))
    const some = await query(lines('price,city', '200, Zug', '300,Bern'))

    assert.deepEqual(spaced.rows, [
      { price: 200, city: 'Zug', kind: 'a, b' },
      { price: 300, city: null, kind: 'c' },
      { price: 5, city: 'Bern', kind: 'd' },
    ])
    assert.deepEqual(
      some.rows?.map(({ city }) => city),
      ['Zug', 'Bern'],
    )
  })
})
