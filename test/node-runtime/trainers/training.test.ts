import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { houseRows, reviewRows, salesRows, writeCsv, writeJsonl } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, startModelServer, type TrainerRun } from '../../support/servers/nodes/trainer.ts'

const ajv = new Ajv2020({ strict: false })

/** Checks the output that every finished run must have. */
function checkRun(run: TrainerRun, epochs: number): void {
  assert.equal(run.code, 0, run.error?.message)
  const { result } = run
  const metrics = run.events.filter(({ event }) => event === 'metric')
  assert.equal(metrics.length, epochs)
  assert.deepEqual(
    result.metrics.epochs,
    metrics.map(({ epoch, train_loss, val_loss }) => ({ epoch, train_loss, val_loss })),
  )
  const last = result.metrics.epochs.at(-1)
  assert.ok(last && last.train_loss < (result.metrics.epochs[0]?.train_loss ?? 0))
  assert.equal(run.events.findLast(({ event }) => event === 'progress')?.['fraction'], 1)
  assert.ok(run.events.some(({ event, name }) => event === 'artifact' && name === 'manifest.json'))

  assert.ok(ajv.validate(result.input_schema, result.example_input), ajv.errorsText())
  assert.ok(ajv.validate(result.output_schema, result.example_output), ajv.errorsText())
  assert.ok(!ajv.validate(result.input_schema, { instances: [] }))
}

/** Checks that the server returns exactly the trainer's predictions. */
async function checkServed(run: TrainerRun): Promise<void> {
  await using server = await startModelServer(run.outputDir)
  const { status, body } = await server.post(run.result.example_input)
  assert.equal(status, 200)
  closeTo(body.predictions, run.result.example_output.predictions)
}

function closeTo(actual: unknown, expected: unknown): void {
  if (typeof actual === 'number' && typeof expected === 'number') {
    assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${actual} ${expected}`)
  } else if (typeof actual === 'object' && actual !== null && expected !== null) {
    const [left, right] = [Object.entries(actual), Object.entries(expected as object)]
    assert.deepEqual(
      left.map(([name]) => name),
      right.map(([name]) => name),
    )
    left.forEach(([, value], index) => closeTo(value, right[index]?.[1]))
  } else assert.deepEqual(actual, expected)
}

describe('the trainers', () => {
  it("report a sample of a long run's epochs, including the first and the last, and the best epoch", async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(60))
    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      file,
      hyperparameters: { epochs: 4_001, num_leaves: 2 },
    })

    assert.equal(run.code, 0, run.error?.message)
    const metricEpochs = run.events.flatMap(({ event, epoch }) => (event === 'metric' ? [epoch] : []))
    assert.deepEqual(
      [metricEpochs.length, metricEpochs[0], metricEpochs[1], metricEpochs.at(-1)],
      [1_335, 1, 3, 4_001],
    )
    const { epochs } = run.result.metrics
    assert.ok(epochs.length - metricEpochs.length <= 1, `${epochs.length} epochs`)
    assert.equal(epochs.at(-1)?.epoch, 4_001)
  })

  it('train a regression model on a table with text, missing values and booleans', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(400))
    const run = await runTrainer({
      folder: folder.path,
      model: 'tabular-regression',
      file,
      hyperparameters: { epochs: 80 },
    })

    checkRun(run, 80)
    const { mae = 0, rmse = 0, r2 = 0 } = run.result.metrics
    assert.ok(r2 > 0.95 && mae < rmse, JSON.stringify({ mae, rmse, r2 }))
    const [first] = run.result.example_input.instances
    assert.deepEqual(Object.keys(first ?? {}), ['size', 'age', 'town', 'garden'])
    // A list keeps its order in the database; the members of an object do not.
    assert.deepEqual(
      run.result.input_schema.properties['instances']?.items['x-order'],
      Object.keys(first ?? {}),
    )
    await checkServed(run)
  })

  it('train a classifier with class labels of any JSON type', async () => {
    using folder = temporaryFolder()
    const rows = houseRows(300)
    for (const target of ['town', 'garden'] as const) {
      const file = await writeJsonl(folder.path, rows)
      const run = await runTrainer({
        folder: folder.path,
        model: 'tabular-classification',
        format: 'jsonl',
        file,
        hyperparameters: { epochs: 30, target_column: target, class_weight: 'balanced' },
      })

      checkRun(run, 30)
      const { accuracy = 0, f1 = 0, log_loss = 1 } = run.result.metrics
      assert.ok(accuracy > 0.65 && f1 > 0.65 && log_loss < 0.8, JSON.stringify({ accuracy, f1, log_loss }))
      const [prediction] = run.result.example_output.predictions as { label: unknown }[]
      assert.equal(typeof prediction?.label, typeof rows[0]?.[target])
      await checkServed(run)
    }
  })

  it('train a forecasting model that continues trend and season', async () => {
    using folder = temporaryFolder()
    const rows = salesRows(300)
    const file = await writeCsv(folder.path, rows.toReversed())
    const hyperparameters = { epochs: 120, horizon: 6 }
    const run = await runTrainer({
      folder: folder.path,
      model: 'time-series-forecast',
      file,
      hyperparameters,
    })

    checkRun(run, 120)
    assert.ok((run.result.metrics['r2'] ?? 0) > 0.9)
    const [forecast] = run.result.example_output.predictions as number[][]
    const expected = salesRows(306).slice(300)
    assert.equal(forecast?.length, 6)
    forecast.forEach((value, step) =>
      assert.ok(Math.abs(value - Number(expected[step]?.['sales'])) < 8, `step ${step}`),
    )
    await checkServed(run)
  })

  it('train a text classifier', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, reviewRows(240))
    const run = await runTrainer({ folder: folder.path, model: 'text-classification', file })

    checkRun(run, 20)
    assert.ok((run.result.metrics['accuracy'] ?? 0) > 0.95)
    await checkServed(run)
  })

  it('show the start of a long text as the example, and the model accepts it', async () => {
    using folder = temporaryFolder()
    const rows = reviewRows(60).map((row) => ({ ...row, text: `${row['text']}${' lovely'.repeat(500)}` }))
    const file = await writeCsv(folder.path, rows)
    const run = await runTrainer({ folder: folder.path, model: 'text-classification', file })

    assert.equal(run.code, 0, run.error?.message)
    const texts = run.result.example_input.instances.map(({ text }) => String(text))
    assert.deepEqual(
      texts.map((text) => text.length),
      [500, 500],
    )
    assert.ok(rows.some(({ text }) => text.startsWith(texts[0]!)))
    await checkServed(run)
  })

  it('produce the same model for the same seed on any number of threads', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(400))
    const job = { folder: folder.path, model: 'tabular-regression', file, hyperparameters: { epochs: 20 } }
    const one = await runTrainer({ ...job, threads: 1 })
    const two = await runTrainer({ ...job, threads: 2 })

    assert.equal(two.result.metrics['mae'], one.result.metrics['mae'])
    assert.deepEqual(two.result.example_output, one.result.example_output)
  })

  it('stop early when the validation loss no longer falls, and keep the best epoch', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(60))
    const hyperparameters = {
      epochs: 2000,
      early_stopping_epochs: 10,
      learning_rate: 0.3,
      min_child_samples: 1,
    }
    const run = await runTrainer({ folder: folder.path, model: 'tabular-regression', file, hyperparameters })

    const losses = run.result.metrics.epochs.map(({ val_loss }) => val_loss)
    assert.ok(losses.length < 1000)
    assert.equal(losses.indexOf(Math.min(...losses)), losses.length - 11)
    const squared = (run.result.metrics['rmse'] ?? 0) ** 2
    assert.ok(Math.abs(squared / Math.min(...losses) - 1) < 1e-6)
  })
})
