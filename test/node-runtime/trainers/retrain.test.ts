import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { houseRows, writeCsv } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, treesOf, type TrainerJob } from '../../support/servers/nodes/trainer.ts'

const QUICK = { epochs: 40, num_leaves: 4, checkpoint_every_epochs: 10 }

describe('continuing from an earlier model', () => {
  const folder = temporaryFolder()
  after(() => folder[Symbol.dispose]())

  const job = (name: string, file: string, more: Partial<TrainerJob> = {}): TrainerJob => ({
    folder: join(folder.path, name),
    model: 'tabular-regression',
    file,
    hyperparameters: QUICK,
    ...more,
  })
  const files = async () => {
    const rows = houseRows(600)
    const half = rows.length / 2
    return Promise.all(
      [rows.slice(0, half), rows.slice(half)].map((some, index) =>
        writeCsv(folder.path, some, `${index}.csv`),
      ),
    )
  }

  it("keeps the base's trees, adds new ones, and starts from the base's predictions", async () => {
    const [first = '', second = ''] = await files()
    const base = await runTrainer(job('base', first))

    const run = await runTrainer(job('on', second, { baseDir: base.outputDir }))

    assert.equal(run.code, 0, run.error?.message)
    const [trees, baseTrees] = await Promise.all([treesOf(run), treesOf(base)])
    assert.ok(trees.startsWith(baseTrees.slice(0, 2_000)))
    assert.equal(trees.match(/^Tree=/gm)?.length, 2 * QUICK.epochs)
    assert.equal(run.result.metrics.epochs.length, QUICK.epochs)
    assert.ok(run.result.metrics.epochs[0]!.val_loss < base.result.metrics.epochs[0]!.val_loss / 10)
    const features = async (dir: string) =>
      (JSON.parse(await readFile(join(dir, 'manifest.json'), 'utf8')) as { features: unknown }).features
    assert.deepEqual(await features(run.outputDir), await features(base.outputDir))
  })

  it('ends with the same model even if it was killed and resumed', async () => {
    const [first = '', second = ''] = await files()
    const base = await runTrainer(job('killed-base', first))
    const straight = await runTrainer(job('straight', second, { baseDir: base.outputDir }))
    const broken = job('killed', second, { baseDir: base.outputDir })
    let checkpoint = ''
    await runTrainer({
      ...broken,
      onEvent: ({ event, path }) => {
        if (event !== 'checkpoint') return
        checkpoint = String(path)
        return 'SIGKILL'
      },
    })

    const resumed = await runTrainer({ ...broken, resumeFrom: checkpoint })

    assert.ok(resumed.events.some(({ event }) => event === 'resumed'))
    assert.equal(await treesOf(resumed), await treesOf(straight))
    assert.deepEqual(resumed.result.metrics, straight.result.metrics)
  })

  it('leaves out only the columns that the base did not learn from', async () => {
    const [first = ''] = await files()
    const base = await runTrainer(job('known', first))
    const rows = houseRows(100).map((row) => ({ ...row, age: null, floor: 1 }))

    const run = await runTrainer(
      job('more', await writeCsv(folder.path, rows, 'more.csv'), {
        baseDir: base.outputDir,
        hyperparameters: { ...QUICK, target_column: 'price' },
      }),
    )

    const reason = 'the base model did not learn from it'
    assert.deepEqual(base.result.metrics.left_out_columns, [])
    assert.deepEqual(run.result.metrics.left_out_columns, [{ column: 'floor', reason }])
    assert.ok(!run.events.some(({ message }) => /'age' is left out/.test(String(message))))
  })

  it('names the column in which the dataset and the base differ', async () => {
    const [first = ''] = await files()
    const base = await runTrainer(job('mismatch-base', first))
    const without = await writeCsv(
      folder.path,
      houseRows(100).map(({ size = null, garden = null, price = null, age = null }) => ({
        size,
        age,
        garden,
        price,
      })),
      'without.csv',
    )
    const other = await writeCsv(
      folder.path,
      houseRows(100).map((row) => ({ ...row, size: `about ${Math.round(Number(row['size']) / 100)}` })),
      'other.csv',
    )

    const lacking = await runTrainer(job('lacking', without, { baseDir: base.outputDir }))
    const differing = await runTrainer(job('differing', other, { baseDir: base.outputDir }))

    assert.deepEqual(
      [lacking.code, lacking.error?.code, lacking.error?.column],
      [64, 'base_mismatch', 'town'],
    )
    assert.match(
      differing.error?.message ?? '',
      /'size' is a category here, but the base was trained on a number column/,
    )
  })

  it("warns about text that the base did not learn, and rejects a base that learned none of the dataset's values", async () => {
    const lines = (name: string, header: string, row: (index: number) => string, count = 60) =>
      writeFile(
        join(folder.path, name),
        [header, ...Array.from({ length: count }, (_, index) => row(index))].join('\n'),
      )
    const cities = ['Bern', 'Basel', 'Zug', 'Genf']
    await Promise.all([
      lines(
        'cities.csv',
        'age,city,when,y',
        (i) => `${i % 3},${cities[i % 2]},2021-01-0${(i % 5) + 1},${(i % 2) * 7}`,
      ),
      // The first row has no target, and half of the cities are new.
      lines('some.csv', 'age,city,when,note,y', (i) => `,${cities[i % 4]},,${i % 3},${i ? (i % 4) * 7 : ''}`),
      lines('none.csv', 'age,city,when,y', (i) => `${i},${cities[2 + (i % 2)]},,${(i % 2) * 7}`),
      lines('years.csv', 'age,city,when,y', (i) => `${i} years,Bern,2021-01-01,${i % 7}`),
    ])
    const train = (file: string, baseDir?: string, ignored: string[] = []) =>
      runTrainer(
        job(`${file} ${ignored.join()}`, join(folder.path, file), {
          ...(baseDir === undefined ? {} : { baseDir }),
          hyperparameters: { epochs: 2, num_leaves: 4, target_column: 'y', ignore_columns: ignored },
        }),
      )
    const { outputDir: base } = await train('cities.csv')

    const some = await train('some.csv', base, ['note'])
    const refused = [
      await train('none.csv', base),
      await train('cities.csv', base, ['city']),
      await train('years.csv', base),
    ]

    assert.equal(some.code, 0, some.error?.message)
    assert.deepEqual(
      some.result.metrics.warnings?.filter(({ column }) => column !== 'y'),
      [
        {
          message:
            "Column 'age', which the base learned from, has no values; it counts as missing in every row.",
          column: 'age',
          count: 59,
        },
        {
          message:
            "30 of 59 rows have text in 'city' that the base did not learn, such as 'Zug' (row 3; 2 distinct values); it counts as missing. To learn from them, train without a base.",
          column: 'city',
          count: 30,
          row: 3,
        },
        {
          message:
            "Column 'when', which the base learned from, has no values; it counts as missing in every row.",
          column: 'when',
          count: 59,
        },
      ],
    )
    assert.deepEqual(some.result.metrics.left_out_columns, [
      { column: 'note', reason: 'it is listed in ignore_columns' },
    ])
    assert.deepEqual(
      refused.map(({ error }) => [error?.code, error?.column]),
      [
        ['base_mismatch', 'city'],
        ['base_mismatch', 'city'],
        ['base_mismatch', 'age'],
      ],
    )
    assert.deepEqual(
      refused.map(({ error }) => error?.message),
      [
        "The base predicts from 'city', but the dataset has no value there that the base learned, so the base would add nothing: train without a base.",
        "ignore_columns names 'city', which the base learned from. Take it out of ignore_columns, or train without a base.",
        "Column 'age' is a category here, but the base was trained on a number column (row 1 is '0 years').",
      ],
    )
  })

  it('continues from a base that an earlier version trained, which kept spaces around names, text and classes', async () => {
    const rows = Array.from(
      { length: 60 },
      (_, i) => `${i % 7}, ${i % 2 ? 'Bern' : 'Basel'}, ${i % 3 ? 'yes' : 'no'}`,
    )
    const file = join(folder.path, 'blanks.csv')
    await writeFile(file, ['age, city, label', ...rows].join('\n'))
    const settings = { ...QUICK, target_column: 'label' }
    const train = (name: string, more: Partial<TrainerJob>) =>
      runTrainer(job(name, file, { model: 'tabular-classification', hyperparameters: settings, ...more }))
    const { outputDir: baseDir } = await train('blanks-base', {})
    const path = join(baseDir, 'manifest.json')
    const manifest = await readFile(path, 'utf8')
    await writeFile(
      path,
      manifest.replace(/"(label|city|Bern|Basel|yes|no)"/g, '" $1"').replace('"age"', '"age "'),
    )
    assert.match(await readFile(path, 'utf8'), /" Basel"/)

    const run = await train('blanks', { baseDir })

    assert.equal(run.code, 0, run.error?.message)
    assert.deepEqual(run.result.metrics.warnings ?? [], [])
    const parts = (text: string) => {
      const { target, features, classes } = JSON.parse(text) as Record<string, unknown>
      return { target, features, classes }
    }
    assert.deepEqual(parts(await readFile(join(run.outputDir, 'manifest.json'), 'utf8')), parts(manifest))
  })

  it('learns classes with leading zeros as written, and as numbers on a numeric base', async () => {
    const labelled = (labels: string[]) =>
      writeFile(
        join(folder.path, `${labels.join('-')}.csv`),
        [
          'size,kind,label',
          ...Array.from({ length: 60 }, (_, i) => `${i % 3},big ${i % 3},${labels[i % 3]}`),
        ].join('\n'),
      )
    await Promise.all([labelled(['12', '007', '7']), labelled(['12', '7', '7'])])
    const classify = (name: string, file: string, more: Partial<TrainerJob> = {}) =>
      runTrainer(
        job(name, join(folder.path, file), {
          model: 'tabular-classification',
          hyperparameters: { epochs: 3, num_leaves: 4, target_column: 'label' },
          ...more,
        }),
      )
    const classesOf = async ({ outputDir }: { outputDir: string }) =>
      (JSON.parse(await readFile(join(outputDir, 'manifest.json'), 'utf8')) as { classes: unknown }).classes
    const warnings = ({ result }: { result: { metrics: { warnings?: { message: string }[] } } }) =>
      (result.metrics.warnings ?? []).map(({ message }) => message)

    const written = await classify('written', '12-007-7.csv')
    const numbers = await classify('numbers', '12-7-7.csv')
    const retrained = await classify('retrained', '12-007-7.csv', { baseDir: numbers.outputDir })
    const texts = await classify('texts', '12-007-7.csv', {
      model: 'text-classification',
      hyperparameters: { epochs: 3, target_column: 'label', text_column: 'kind' },
    })

    assert.deepEqual(await classesOf(written), ['007', '12', '7'])
    assert.match(JSON.stringify(written.result.output_schema), /"enum":\s*\["007",\s*"12",\s*"7"\]/)
    assert.deepEqual(
      [await classesOf(numbers), await classesOf(retrained)],
      [
        [7, 12],
        [7, 12],
      ],
    )
    assert.deepEqual(await classesOf(texts), ['007', '12', '7'])
    assert.deepEqual([written, numbers, texts].flatMap(warnings), [])
    assert.match(
      warnings(retrained).join(),
      /^'007' and '7' \(row 3\) in 'label' are read as one number, 7\./,
    )
  })
})
