import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { houseRows, reviewRows, salesRows, writeCsv } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import {
  pythonOf,
  runTrainer,
  startModelServer,
  type ModelServer,
} from '../../support/servers/nodes/trainer.ts'

const HOUSE = { size: 80, age: 10, town: 'Oslo', garden: false }

async function trainAndServe(
  folder: string,
  model: string,
  rows: Parameters<typeof writeCsv>[1],
  hyperparameters: Record<string, unknown> = {},
): Promise<ModelServer> {
  const file = await writeCsv(folder, rows)
  const run = await runTrainer({ folder, model, file, hyperparameters: { epochs: 10, ...hyperparameters } })
  assert.equal(run.code, 0, run.error?.message)
  return startModelServer(run.outputDir)
}

describe('the tabular model server', () => {
  it("names the instance and column that it can't use", async () => {
    using folder = temporaryFolder()
    await using server = await trainAndServe(folder.path, 'tabular-regression', houseRows(100))
    const refusals: [unknown, number, RegExp, string?][] = [
      ['{"instances":', 400, /not JSON/],
      [{}, 422, /must be an object with "instances"/, '/instances'],
      [{ instances: [] }, 422, /at least one/, '/instances'],
      [{ instances: Array.from({ length: 10_001 }, () => HOUSE) }, 422, /at most 10000/, '/instances'],
      [{ instances: [HOUSE, 7] }, 422, /instances\[1\] must be an object/, '/instances/1'],
      [{ instances: [{ age: 3 }] }, 422, /instances\[0\]\.size is missing/, '/instances/0/size'],
      [{ instances: [{ ...HOUSE, size: null }] }, 422, /size must not be null/, '/instances/0/size'],
      [{ instances: [HOUSE, { ...HOUSE, size: '80' }] }, 422, /\[1\]\.size must be a number, not a string/],
      [{ instances: [{ ...HOUSE, town: 3 }] }, 422, /town must be a string, not a number/],
      [{ instances: [{ ...HOUSE, garden: 'no' }] }, 422, /garden must be true or false, not a string/],
      [`{"instances":[{"x":"${'x'.repeat(17 << 20)}"}]}`, 413, /larger than 16 MB/],
    ]
    for (const [body, status, message, path] of refusals) {
      const answer = await server.post(body)

      assert.equal(answer.status, status, JSON.stringify(answer.body))
      assert.match(answer.body.error?.message ?? '', message)
      if (path) assert.equal(answer.body.error?.path, path)
    }
  })

  it('answers one row and many rows the same way, and treats unseen and absent values as missing', async () => {
    using folder = temporaryFolder()
    await using server = await trainAndServe(folder.path, 'tabular-regression', houseRows(100))
    const { age: _age, ...ageless } = HOUSE
    const instances = [HOUSE, { ...HOUSE, town: 'Paris' }, ageless, { ...HOUSE, age: null, colour: 'red' }]

    const together = await server.post({ instances })
    const single = await Promise.all(instances.map((instance) => server.post({ instances: [instance] })))

    assert.equal(together.status, 200)
    assert.deepEqual(
      single.flatMap(({ body }) => body.predictions),
      together.body.predictions,
    )
    assert.equal(together.body.predictions?.[2], together.body.predictions?.[3])
  })

  it('rejects a misspelled optional column instead of treating it as missing', async () => {
    using folder = temporaryFolder()
    const rows = houseRows(100).map(({ size = null, age = null, town = null, price = null }, at) => ({
      'Size m²': at % 9 === 4 ? null : size,
      building_year: age,
      town,
      size_note: 'by hand',
      price,
    }))
    const file = await writeCsv(folder.path, rows)
    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      file,
      hyperparameters: { epochs: 10, ignore_columns: ['size_note'] },
    })
    assert.equal(run.code, 0, run.error?.message)
    const manifestFile = join(run.outputDir, 'manifest.json')
    const manifest = JSON.parse(await readFile(manifestFile, 'utf8')) as Record<string, unknown>
    assert.deepEqual(manifest['other_columns'], ['size_note'])
    const whole = { 'Size m²': 80, building_year: 10, town: 'Oslo' }
    const { 'Size m²': _size, ...sizeless } = whole
    const { building_year: _year, ...yearless } = whole
    {
      await using server = await startModelServer(run.outputDir)
      for (const [sent, column] of [
        ['size', 'Size m²'],
        ['SIZE_M2', 'Size m²'],
        ['Size m² (living area)', 'Size m²'],
        ['Size/m²', 'Size m²'],
        ['BuildingYear', 'building_year'],
        ['buildnig_year', 'building_year'],
        ['Building year (of the house)', 'building_year'],
      ] as const) {
        const rest = column === 'Size m²' ? sizeless : yearless
        const { status, body } = await server.post({ instances: [whole, { ...rest, [sent]: 80 }] })

        assert.equal(status, 422, sent)
        assert.deepEqual(body.error, {
          message: `instances[1].${sent} is not a column of this model; did you mean '${column}'? Write null for a value that is missing.`,
          path: `/instances/1/${sent.replace('/', '~1')}`,
        })
      }
      const answers = await server.post({
        instances: [
          { ...sizeless, 'Size m²': null },
          { ...sizeless, 'Size m²': null, size: 80 },
          sizeless,
          {
            ...sizeless,
            size_note: 'x',
            price: 1,
            colour: 'red',
            size_group: 'big',
            si: 1,
            '²': 2,
            sizes: 3,
            'Size m³': 4,
          },
        ],
      })
      assert.equal(answers.status, 200, answers.body.error?.message)
      assert.equal(new Set(answers.body.predictions).size, 1)
    }

    delete manifest['other_columns']
    await writeFile(manifestFile, JSON.stringify(manifest))
    await using earlier = await startModelServer(run.outputDir)
    const [plain, misspelt, ignored] = [
      await earlier.post({ instances: [sizeless] }),
      await earlier.post({ instances: [{ ...sizeless, SIZE_M2: 80 }] }),
      await earlier.post({ instances: [{ ...sizeless, size: 80, price: 1, size_note: 'x', colour: 'red' }] }),
    ]
    assert.deepEqual([plain.status, misspelt.status, ignored.status], [200, 422, 200])
  })

  it('spends little time on requests with many long, unknown names', async () => {
    const script = `
import random, sys, time
random.seed(1)
sys.path[:0] = [sys.argv[1]]
from misspelt_columns import MisspeltColumns
words = "how satisfied are you with the quality of service that our staff in your branch gives to customers".split()
name = lambda chars: " ".join(random.choice(words) for _ in range(60))[:chars]
for columns, chars in ((500, 170), (500, 30), (10_000, 30)):
    columns = MisspeltColumns([name(chars) for _ in range(columns)], [])
    columns.first_in({name(chars): 1 for _ in range(50)}, {})
print(time.process_time())
`
    const servers = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'servers')
    const { stdout } = await promisify(execFile)(await pythonOf('tabular'), ['-c', script, servers])

    assert.ok(Number(stdout) < 4, `${stdout.trim()} s of CPU`)
  })

  it('requires enough past values for a forecast, and uses the latest ones', async () => {
    using folder = temporaryFolder()
    const options = { horizon: 3, lags: 12 }
    await using server = await trainAndServe(folder.path, 'time-series-forecast', salesRows(150), options)
    const past = salesRows(40).map((row) => Number(row['sales']))

    const whole = await server.post({ instances: [{ sales: past }] })
    const tail = await server.post({ instances: [{ sales: past.slice(-12) }] })

    const [forecast] = whole.body.predictions as number[][]
    assert.equal(forecast?.length, 3)
    assert.deepEqual(tail.body, whole.body)
    for (const [sent, message] of [
      [past.slice(0, 11), /has 11 values; at least 12 are needed/],
      [[...past.slice(0, 20), 'x'], /value 20 is a string/],
      [5, /must be a list of past values/],
    ] as const) {
      const { status, body } = await server.post({ instances: [{ sales: sent }] })
      assert.equal(status, 422)
      assert.match(body.error?.message ?? '', message)
    }
  })

  it('answers any text, even if it contains no known word', async () => {
    using folder = temporaryFolder()
    await using server = await trainAndServe(folder.path, 'text-classification', reviewRows(120))

    const { body } = await server.post({ instances: [{ text: 'a lovely, superb chair' }, { text: '' }] })
    const refused = await server.post({ instances: [{ text: ['lovely'] }] })

    const predictions = body.predictions as { label: string; probabilities: Record<string, number> }[]
    assert.equal(predictions[0]?.label, 'good')
    for (const { probabilities } of predictions) {
      const total = Object.values(probabilities).reduce((sum, value) => sum + value, 0)
      assert.ok(Math.abs(total - 1) < 1e-9)
    }
    assert.match(refused.body.error?.message ?? '', /text must be a string, not a list/)
  })

  it('accepts a string or a list of strings, as other text classifiers do', async () => {
    using folder = temporaryFolder()
    await using server = await trainAndServe(folder.path, 'text-classification', reviewRows(120))
    const texts = ['a lovely, superb chair', '']

    const { body: rows } = await server.post({ instances: texts.map((text) => ({ text })) })
    const { body: one } = await server.post({ text: texts[0] })
    const { body: many } = await server.post({ text: texts })

    const expected = (rows.predictions as { label: string; probabilities: object }[]).map(
      ({ label, probabilities }) => ({ label, scores: probabilities }),
    )
    assert.deepEqual(one, expected[0])
    assert.deepEqual(many, { results: expected })
    for (const [sent, path] of [
      [{ text: 5 }, '/text'],
      [{ text: [] }, '/text'],
      [{ text: ['a', 5] }, '/text/1'],
      [{}, '/instances'],
    ] as const) {
      const { status, body } = await server.post(sent)
      assert.equal(status, 422)
      assert.equal(body.error?.path, path)
    }
  })

  it('splits text in any script into words, and keeps the old splitting for models from earlier versions', async () => {
    const texts = [
      'The Chair, naïve',
      '这个好iPhone 15',
      'ราคาดี ไม่ดี',
      'हिन्दी में',
      'cafe\u0301 café',
      'ok😀😡 👍🏽 ❤\ufe0f🇨🇭 € 5 → a+b',
      '한국어 か\u3099',
      '…!?',
    ]
    const script = `
import json, sys
from hearth_trainers.words import has_new_words, words_of
print(json.dumps([[list(words_of(text, 1, version)) for text in json.loads(sys.argv[1])] for version in (1, 2)]))
print(json.dumps(list(words_of("很好 ok", 2))))
print(json.dumps([has_new_words(text) for text in ["the chair", "Straße, дом", "naïve", "nai\u0308ve", "Việt", "Ёлка", "好的 ok"]]))
`
    const trainers = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'trainers')
    const { stdout } = await promisify(execFile)(
      await pythonOf('tabular'),
      ['-c', script, JSON.stringify(texts)],
      { env: { ...process.env, PYTHONPATH: trainers } },
    )

    const [versions = '', runs = '', areNew = ''] = stdout.split('\n')
    const [earlier, now] = JSON.parse(versions) as string[][][]
    assert.deepEqual(now, [
      ['the', 'chair', 'naïve'],
      ['这', '个', '好', 'iphone', '15'],
      ['ร', 'า', 'ค', 'า', 'ดี', 'ไ', 'ม่', 'ดี'],
      ['हिन्दी', 'में'],
      ['café', 'café'],
      ['ok', '😀', '😡', '👍', '❤', '🇨🇭', '€', '5', '→', 'a', 'b'],
      ['한국어', 'が'],
      [],
    ])
    assert.deepEqual(earlier?.slice(0, 2), [
      ['the', 'chair', 'naïve'],
      ['这个好iphone', '15'],
    ])
    // Accented letters may consist of two code points, which the old splitting separates.
    assert.deepEqual(JSON.parse(areNew), [false, false, true, true, true, true, true])
    assert.deepEqual(JSON.parse(runs), ['很', '好', 'ok', '很 好', '好 ok'])
  })

  it('splits emoji and text without spaces as its trainer did, and leaves models from earlier versions unchanged', async () => {
    using folder = temporaryFolder()
    const moods = { good: ['非常好', '😀'], bad: ['非常差', '😡'] }
    const rows = Array.from({ length: 120 }, (_, i) => {
      const label = i % 2 ? 'good' : 'bad'
      return { text: `${'今昨明前後'[i % 5]}天第${i}个${moods[label][(i >> 1) % 2]}`, label }
    })
    const file = await writeCsv(folder.path, rows)
    const run = await runTrainer({ folder: folder.path, model: 'text-classification', file })
    const manifest = join(run.outputDir, 'manifest.json')
    const written = JSON.parse(await readFile(manifest, 'utf8')) as { text: unknown }
    const [column, ngram_max, words] = written.text as [string, number, number]
    const earlier = { column, ngram_max }
    const answer = async () => {
      await using server = await startModelServer(run.outputDir)
      const { body } = await server.post(run.result.example_input)
      const { body: two } = await server.post({ text: ['ok 😀', 'ok 😡'] })
      return { predictions: body.predictions, moods: two as unknown as { results: { label: string }[] } }
    }

    const now = await answer()
    await writeFile(manifest, JSON.stringify({ ...written, text: earlier }))
    const before = await answer()

    assert.equal(words, 2)
    assert.ok(run.result.metrics['accuracy']! > 0.9, String(run.result.metrics['accuracy']))
    const labels = (predictions: unknown) => (predictions as { label: string }[]).map(({ label }) => label)
    assert.deepEqual(labels(now.predictions), labels(run.result.example_output.predictions))
    assert.deepEqual(
      now.moods.results.map(({ label }) => label),
      ['good', 'bad'],
    )
    assert.deepEqual(before.moods.results[0], before.moods.results[1])
  })

  it('classifies accented words the same way, whether accents are composed or combining', async () => {
    using folder = temporaryFolder()
    const words = { good: ['très satisfait', 'élevé', 'Việt đẹp'], bad: ['déçu', 'périmé', 'hỏng rồi'] }
    const rows = Array.from({ length: 120 }, (_, i) => {
      const label = i % 2 ? 'good' : 'bad'
      return { text: `${words[label][(i >> 1) % 3]} ${i % 7}`, label }
    })
    const file = await writeCsv(folder.path, rows)
    const run = await runTrainer({ folder: folder.path, model: 'text-classification', file })
    await using server = await startModelServer(run.outputDir)
    const texts = Object.values(words).flat()

    const [composed, marked] = await Promise.all(
      (['NFC', 'NFD'] as const).map(async (form) => {
        const { body } = await server.post({ text: texts.map((text) => text.normalize(form)) })
        return body
      }),
    )

    assert.deepEqual(marked, composed)
  })

  it('answers health checks, rejects other paths, and exits on SIGTERM', async () => {
    using folder = temporaryFolder()
    await using server = await trainAndServe(folder.path, 'tabular-regression', houseRows(60))
    const base = `http://127.0.0.1:${server.port}`

    const health = await fetch(`${base}/health`)
    const other = await fetch(`${base}/infer`)

    assert.deepEqual(await health.json(), { status: 'ok', task: 'regression', target: 'price' })
    assert.equal(other.status, 404)
    await other.body?.cancel()
    assert.equal(await server.stop(), 0)
  })

  it('refuses to start with an unknown kind of model', async () => {
    using folder = temporaryFolder()
    await writeFile(join(folder.path, 'manifest.json'), '{"format":"other/9"}')

    await assert.rejects(
      startModelServer(folder.path),
      /its weights cannot be used: its format is not the one that this server supports, hearth-tabular\/1/,
    )
  })
})
