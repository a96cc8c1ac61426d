import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { probeTables } from '../../support/builders/probes/table-probe.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const two = (value: number): string => String(value).padStart(2, '0')

describe('a trainer reading a table', () => {
  it('reads dots as thousands separators if the file proves it, and warns otherwise', async () => {
    const cases: [csv: string, numbers: string[], warning: RegExp | undefined][] = [
      [
        'a;b\n850;x\n1.234;y\n12.345;z',
        ['850', '1234', '12345'],
        /dots between thousands: '1\.234' in row 2 is 1234/,
      ],
      ['a;b\n€ 1.234;0,5\n€ 12.345;1,25', ['1234', '12345'], /dots between thousands/],
      ['a,b\n-1.234,"0,5"\n850,"1,25"', ['-1234', '850'], /dots between thousands/],
      ['a,b\n1.234.567,x\n1.234,y', ['1234567', '1234'], /dots between thousands/],
      ['a,b\n1.234,x\n5.678,y', ['1.234', '5.678'], /decimal point, which may be a thousands separator/],
      ['a;b\n1.234;2.5\n5.678;0.25', ['1.234', '5.678'], /decimal point, which may be/],
      ['a;b\n0.234;x\n5.678;y', ['0.234', '5.678'], undefined],
      ['a;b\n1.2345;x\n5.678;y', ['1.2345', '5.678'], undefined],
      ['a\tb\n1.234\t12,50 €\n2.500\t7,25 €', ['1234', '2500'], /dots between thousands/],
      ['a;b\n1.234;$1.50\n2.500;$7.25', ['1.234', '2.5'], /decimal point, which may be/],
      ['a;b\n1.234;-\n2.500;12.5 %', ['1.234', '2.5'], /decimal point, which may be/],
      ['a|b\n1.234|1 234,5\n2.500|12,25', ['1234', '2500'], /dots between thousands/],
      ['a,b\n1.234,"1,250 €"\n2.500,"3,500 €"', ['1.234', '2.5'], /decimal point, which may be/],
      ['a,b\n1.234,"11,682"\n2.500,"959"', ['1.234', '2.5'], /decimal point, which may be/],
      ['a,b,c\n1.234,"11,682",19.36\n2.500,"959",7.5', ['1.234', '2.5'], undefined],
      ['a|b\n1.234|1,234.50\n2.500|959', ['1.234', '2.5'], undefined],
      ['a\tb\n1.234\t0,125\n2.500\t12', ['1234', '2500'], /dots between thousands/],
      ['a\tb\n1.234\t1.250,125\n2.500\t12', ['1234', '2500'], /dots between thousands/],
      ['a\tb\tc\n1.234\t12,5\t0.5\n2.500\t7,25\t1.5', ['1.234', '2.5'], /decimal point, which may be/],
      ['a;b;c\n1.234;12,5;0.5\n980;7,25;1.5', ['1234', '980'], /dots between thousands/],
      ['a;b;c\n126.949;118,69;48.3984\n980;3,2;47.5', ['126949', '980'], /dots between thousands/],
      ["a;b;c;d\n1.234;12,5;0.5;1'500\n2.500;7,25;1.5;7", ['1.234', '2.5'], /decimal point, which may be/],
      ['a;b\n1.234;x\n-1500;y', ['1.234', '-1500.0'], /decimal point, which may be/],
      ["a;b\n46.948;134'591\n7.447;980", ['46.948', '7.447'], /decimal point, which may be/],
      ['a;b\n1.234;12 500 €\n2.500;9 000 €', ['1.234', '2.5'], /decimal point, which may be/],
      ["a;b;c\n1.234;12'500;7,5\n2.500;980;1,25", ['1234', '2500'], /dots between thousands/],
      ["a;b\n1.234;rock'n'roll\n2.500;079 123 456", ['1234', '2500'], /dots between thousands/],
    ]

    const found = await probeTables(cases.map(([csv]) => ({ text: csv })))

    for (const [i, [csv, numbers, warning]] of cases.entries()) {
      const about = found[i]?.warnings.filter((message) => message.startsWith("Column 'a'")) ?? []
      assert.deepEqual([found[i]?.columns?.['a'], about.length], [numbers, warning ? 1 : 0], csv)
      if (warning) assert.match(String(about[0]), warning, csv)
    }
  })

  it('allows spaces only between the thousands of one number, and rejects hexadecimal, as the dataset profile does', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'data.csv')
    const columns: [name: string, cells: string[], isNumber: boolean][] = [
      ['one', ['1 000', '12 345,5', '1 234 567'], true],
      ['two', ['10 2000', '1 000', '2 000'], false],
      ['many', ['1 0000', '1 000', '3'], false],
      ['zero', ['0 123', '1 000', '3'], false],
      ['hex', ['0x1F', '12', '13'], false],
      ['exponent', ['1,5E+0', '2,25e-1', '3'], true],
      ['thin', ['1\u2009000', '12\u2009345', '3'], true],
      ['acute', ['1´000', '12´345,5', '3'], true],
      ['mixed', ['1,5', '2.5', '3'], false],
      ['both', ['1,234E5', '2,345E5', '3'], true],
      ['period', ['2020_01', '2020_02', '2021_10'], false],
      ['part', ['1_000', '2', '3.5'], false],
    ]
    const lines = [0, 1, 2].map((row) => columns.map(([, cells]) => cells[row]).join(';'))
    const csv = [columns.map(([name]) => name).join(';'), ...lines].join('\n')
    await writeFile(file, csv)

    const [[found], profile] = await Promise.all([
      probeTables([{ text: csv }]),
      readDataset({ path: file, format: 'csv' }),
    ])

    const learns = columns.map(([name, cells]) => found?.columns?.[name]?.join() !== cells.join())
    const types = profile.columns.map(({ type }) => type === 'number' || type === 'integer')
    const expected = columns.map(([, , isNumber]) => isNumber)
    assert.deepEqual([learns, types], [expected, expected])
    assert.deepEqual(found?.columns?.['one'], ['1000.0', '12345.5', '1234567.0'])
  })

  it('reads rows of nearly 8 MB, which uploads accept, at any position in a file', async () => {
    const long = 'word '.repeat(1_500_000)
    const hyperparameters = { text_column: 'text', target_column: 'label' }
    const short = Array.from({ length: 9_000 }, (_, i) => `row ${i},a`)
    const first = ['text,label', `${long},b`, ...short].join('\n')
    const later = ['text,label', ...short, `"${long}",b`, `${long},b`].join('\n')

    const texts = await probeTables([first, later].map((text) => ({ text, hyperparameters })))
    const tables = await probeTables([first, later].map((text) => ({ text, label: 'label' })))

    assert.deepEqual(
      texts.map(({ rows, error }) => error ?? rows?.length),
      [9_001, 9_002],
    )
    assert.deepEqual(
      tables.map(({ classes, error }) => error ?? classes),
      [
        ['a', 'b'],
        ['a', 'b'],
      ],
    )
  })

  it('drops text classification rows without text or a class, and applies missing value markers only to CSV', async () => {
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
      own.map(([sentence, label]) => JSON.stringify({ text: sentence, label })).join('\n')
    const [table, lines, blank] = await probeTables([
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
    assert.match(String(blank?.error?.[1]), /No row has both text in 'text' and a class in 'label'/)
  })

  it('warns about codes that become the same number without their leading zeros', async () => {
    const [codes, padded, rest, files] = await probeTables([
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

  it('learns classes as written, skips blank ones, and warns about dates that are learned as text', async () => {
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
    const [versions, ids, exponents, whole, plain, features, blank] = await probeTables([
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
      "'1.1' and '1.10' (row 2) in 'y' are learned as different classes; write one class in one way.",
    ])
    assert.deepEqual(ids?.classes, ['10000000000000000001', '10000000000000000002', '5'])
    assert.deepEqual(exponents?.classes, ['.5', '100', '1e2'])
    assert.deepEqual(whole?.classes, ['1.0', '2.0'])
    assert.match(String(whole?.warnings), /^'1' and '1\.0' \(row 2\) in 'y' are read as one number, 1\./)
    assert.deepEqual([plain?.warnings, features?.warnings], [[], []])
    assert.deepEqual(blank?.classes, ['a', 'b'])
    assert.deepEqual(blank?.warnings, [
      "Left out 20 rows without a value in 'y'; the first is row 3.",
      "Column 'd' is learned as text: it looks like dates; only those written as 2023-12-31 or 2023-12-31T23:59:00Z are read.",
    ])
  })

  it('warns about text that is nearly a number or a date, but not about codes, sizes and names with a number', async () => {
    const of = (feature: (i: number) => string) => ({
      text: ['a,y', ...Array.from({ length: 80 }, (_, i) => `${feature(i)},${'xy'[i % 2]}`)].join('\n'),
      label: 'y',
    })
    const day = (i: number) => `2021-03-${two(1 + (i % 28))}`
    const near: Record<string, (i: number) => string> = {
      "it looks like dates, but 'unknown' (row 1) is not one; leave such cells empty": (i) =>
        i < 50 ? 'unknown' : day(i),
      "it looks like dates, but 'TBD' (row 3) is not one; leave such cells empty": (i) =>
        i % 5 === 2 ? 'TBD' : day(i).split('-').toReversed().join('/'),
      "at least half of its different values are numbers, but 'low' (row 2) is not": (i) =>
        i % 3 ? 'low' : String(i % 20),
      "such as '1:30' (row 1); write them as one number": (i) => `${1 + (i % 12)}:30`,
      "such as '7 kg' (row 1); write the number alone": (i) => `${7 + (i % 9)} kg`,
      "such as '4.50 USD' (row 2); write the number alone": (i) => (i % 8 ? `${3 + (i % 8)}.50 USD` : 'free'),
      "such as 'CHF 1' (row 2); write the number alone": (i) => (i % 3 ? `CHF ${i % 10}` : 'n.b.'),
      "such as '<5' (row 1); write the number alone": (i) =>
        ['<5', '>90', '~7', '<1', '>50', 'none'][i % 6] ?? '',
      "such as '3岁' (row 1); write the number alone": (i) => `${3 + (i % 9)}岁`,
      "its numbers are written in several ways, such as '2.5' (row 2) and '1,5' (row 1); write": (i) =>
        `"${1 + (i % 9)}${i % 9 === 1 ? '.' : ','}5"`,
      "its numbers are written in a way that is not read, such as '1,10,000'; write": (i) =>
        `"${1 + (i % 9)},10,000"`,
      "its numbers are written in a way that is not read, such as '١٠'; write": (i) => `١${'٠١٢٣٤٥٦'[i % 7]}`,
      "such as '$1' (row 1); write the number alone": (i) => `${'$€£'[i % 3]}${1 + (i % 9)}`,
      "such as 'USD 1' (row 1); write the number alone": (i) =>
        `${['USD ', '€', 'CHF '][i % 3]}${1 + (i % 9)}`,
      "such as '9.00.00' (row 1); write them as one number": (i) => `${(9 + i) % 24}.00.00`,
      "such as '23.15.07' (row 1); write them as one number": (i) => `23.${15 + (i % 40)}.07`,
    }
    const others: ((i: number) => string)[] = [
      (i) => `AB-${1000 + (i % 30)}-X`,
      (i) => `XL ${i % 30}`,
      (i) => `Room ${i % 30}`,
      (i) => `${1 + (i % 9)}${'ABCD'[i % 4]}`,
      (i) => `${20 + 5 * (i % 6)}-${25 + 5 * (i % 6)}`,
      (i) => `192.168.1.${i % 30}`,
      (i) => `10.${10 + (i % 30)}.20.30`,
      (i) => `0${10 + (i % 30)}`.replace('0', 'x'),
      (i) => `${[30, 60, 90][i % 3]} days`,
      (i) => `${1 + (i % 20)} Main Street`,
      (i) => `${1 + (i % 4)}.${i % 5}.${i % 7}`,
    ]

    const found = await probeTables([...Object.values(near), ...others].map(of))

    for (const [index, words] of Object.keys(near).entries()) {
      const [warning = '', ...more] = found[index]?.warnings ?? []
      assert.ok(warning.startsWith("Column 'a' is learned as text: ") && warning.includes(words), warning)
      assert.deepEqual(more, [])
    }
    assert.deepEqual(
      found.slice(Object.keys(near).length).flatMap(({ warnings }) => warnings),
      [],
    )
  })

  it('warns about free text that is learned as a category, but not about towns, codes and labels', async () => {
    const of = (feature: (i: number) => string) => ({
      text: ['a,y', ...Array.from({ length: 80 }, (_, i) => `${feature(i)},${'xy'[i % 2]}`)].join('\n'),
      label: 'y',
    })
    const found = await probeTables([
      of((i) => `late by ${i % 30} days again`),
      of((i) => (i % 4 ? '' : `"no, it broke after ${i % 40} weeks"`)),
      of((i) => `Saint George ${i % 30}`),
      of((i) => `AB-${1000 + (i % 30)}-X`),
      of((i) => `I agree in part ${i % 8}`),
      of((i) => `section ${i % 12} of the form`),
    ])

    assert.deepEqual(
      found.map(({ warnings }) =>
        warnings.map((message) => /category with \d+ distinct values/.exec(message)?.[0]),
      ),
      [['category with 30 distinct values'], ['category with 10 distinct values'], [], [], [], []],
    )
  })

  it('reads a blank line in a single-column table as a missing value, as the dataset profile does', async () => {
    using folder = temporaryFolder()
    const bodies = ['v\n1\n\n3\n\n', '"a,v"\n1\n\n""\n4', 'v,w\n1,2\n\n3,4\n']
    const found = await probeTables(bodies.map((body) => ({ text: body })))

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

  it('warns if the first row looks like values, as in a file without a header', async () => {
    const cases: [csv: string, named: string | undefined][] = [
      [
        '5.1,Iris-setosa\n4.9,Iris-setosa\n6.2,Iris-virginica\n5.9,Iris-setosa',
        "'5.1' and 'Iris-setosa' look",
      ],
      ['I like it,pos\nso do I,pos\nnot me,neg\nnor me,pos', "'pos' looks"],
      ['2021-01-01,100\n2021-01-02,101\n2021-01-03,102', "'2021-01-01' looks"],
      ['5,1,3\n4,2,1\n6,1,2', "'5' and '1' look"],
      ['age,name\n5,Ada\n6,Eve\nage,name\n7,Ben\nage,name', undefined],
      ['region,2019,2020\nnorth,1,2\nsouth,3,4', undefined],
      ['0,1,2\n5,6,7\n1,0,2', undefined],
      ['region,2021-01-01\nnorth,4\nsouth,5', undefined],
      ['kind,size\nkind,5\nunkind,6', undefined],
      ['age,y\n5,y\n6,n\n7,y', undefined],
      ['No way to plug it in\t0\nworks\t1\nbad\t0\ngood\t1\npoor\t0', "'No way to plug it in' and '0' look"],
      ['3,meh\n3,so so\n1,bad\n2,poor\n3,fine', "'3' looks"],
      ['late,2,0\nearly,1,1\nsoon,2,0\nsoon,2,0\nnow,1,1', "'2' and '0' look"],
      ['"Well, it broke again",P\nfine,P\nbad,N\ngood,P', "'Well, it broke again' and 'P' look"],
      ['text,0,1\na,0,1\nb,1,0\nc,0,1\nd,1,1', undefined],
      ['text,2020\na,0\nb,1\nc,0\nd,1', undefined],
      ['How many hours do you sleep?,age\n7,30\n8,31\n7,30', undefined],
      ['v,eor\n1,eor\n2,eor\n3,eor', undefined],
      ['0,v\n0,7\n0,8\n0,9', undefined],
    ]

    const texts = { text: cases[1]![0], hyperparameters: { text_column: 'I like it', label_column: 'pos' } }

    const found = await probeTables([...cases.map(([csv]) => ({ text: csv })), texts])

    for (const [i, [csv, named]] of [...cases, cases[1]!].entries()) {
      const about = found[i]?.warnings.filter((message) => message.startsWith('The first row')) ?? []
      assert.equal(about.length, named ? 1 : 0, `${csv}: ${about.join()}`)
      if (named) assert.ok(about[0]?.includes(named), about[0])
    }
  })
})
