import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeJsonl } from '../../support/builders/chat-rows.ts'
import { colourPairs, colourTriplets, labelledColours } from '../../support/builders/cohorts/colours.ts'
import { makeTinyLlm } from '../../support/builders/models/tiny-llm.ts'
import { requireSpecialist, tinySpecialist } from '../../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { probeSpecialists } from '../../support/servers/nodes/specialist.ts'
import { runTrainer, type TrainerJob, type TrainerRun } from '../../support/servers/nodes/trainer.ts'
import { skipBecause } from '../../support/skip.ts'

const EMBEDDING = 'embedding-finetune'
const CLASSIFIER = 'text-classification-finetune'
const QUICK = { epochs: 8, learning_rate: 0.003, micro_batch_size: 16, val_set_size: 0.2 }

const namesOf = (run: TrainerRun): string[] =>
  run.events.filter(({ event }) => event === 'artifact').map(({ name }) => String(name))
const messages = (run: TrainerRun): string =>
  run.events.flatMap(({ event, message }) => (event === 'log' ? [String(message)] : [])).join('\n')

async function digestOf({ outputDir }: TrainerRun): Promise<string> {
  const bytes = await readFile(join(outputDir, 'model.safetensors'))
  return createHash('sha256').update(bytes).digest('hex')
}

describe('tuning text encoders', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  let embedder: string
  let distilled: string
  let files: Record<'pairs' | 'triplets' | 'labelled', string>

  before(requireSpecialist)
  before(async () => {
    embedder = await tinySpecialist()
    distilled = await tinySpecialist({ architecture: 'distilbert' })
    files = {
      pairs: await writeJsonl(folder.path, colourPairs(), 'pairs.jsonl'),
      triplets: await writeJsonl(folder.path, colourTriplets(), 'triplets.jsonl'),
      labelled: await writeJsonl(folder.path, labelledColours(), 'labelled.jsonl'),
    }
  })
  after(() => folder[Symbol.dispose]())

  const train = (name: string, job: Partial<TrainerJob> = {}) =>
    runTrainer({
      folder: join(folder.path, name),
      model: EMBEDDING,
      format: 'jsonl',
      file: files.pairs,
      baseDir: embedder,
      ...job,
      hyperparameters: { ...QUICK, ...job.hyperparameters },
    })

  it('ends with a clear error instead of training on the CPU when it was placed on a GPU', async function () {
    if (existsSync('/dev/nvidiactl')) skipBecause(this, 'this machine has a GPU')
    for (const job of [{}, { model: CLASSIFIER, file: files.labelled }]) {
      const { code, error } = await train('no-gpu', { ...job, gpus: 1, hyperparameters: {} })

      assert.deepEqual([code, error?.code], [1, 'no_cuda'])
      assert.match(error?.message ?? '', /placed on a GPU.*did not fall back to the CPU/)
    }
  })

  it('learns embeddings from triplets and pairs, and separates trained from untrained examples', async () => {
    for (const [name, job] of [
      ['none', { hyperparameters: {} }],
      ['lora', { file: files.triplets, hyperparameters: { adapter: 'lora', dataset_type: 'triplets' } }],
    ] as const) {
      const run = await train(name, job)

      assert.equal(run.code, 0, run.error?.message)
      const { metrics } = run.result
      assert.equal(metrics.epochs.length, QUICK.epochs)
      assert.equal(metrics['eval_loss'], metrics.epochs.at(-1)?.val_loss)
      assert.equal(metrics['eval_rows'], 10)
      for (const measure of ['accuracy_at_1', 'mrr'])
        for (const part of ['train', 'eval', 'base_eval'])
          assert.ok(metrics[`${part}_${measure}`]! > 0 && metrics[`${part}_${measure}`]! <= 1)
      assert.ok(metrics['eval_mrr']! > metrics['base_eval_mrr']!, JSON.stringify(metrics))
      const names = namesOf(run)
      for (const file of ['modules.json', '1_Pooling/config.json', 'model.safetensors', 'tokenizer.json'])
        assert.ok(names.includes(file), names.join())
      assert.equal(names.includes('adapter/adapter_model.safetensors'), name === 'lora')
    }
  })

  it('computes vectors as its base does, and writes the usual layout for a base without one', async () => {
    const texts = colourPairs().map(({ anchor }) => anchor)
    const bases = [
      await tinySpecialist({ pooling: 'cls', unnormalized: true }),
      await tinySpecialist({ plain: true }),
    ]
    const [cls, plain] = [
      await train('cls', { baseDir: bases[0]!, hyperparameters: { max_steps: 1, learning_rate: 1e-8 } }),
      await train('plain', { baseDir: bases[1]!, hyperparameters: { max_steps: 1, learning_rate: 1e-8 } }),
    ]

    for (const [run, modules, mode] of [
      [cls, 2, 'cls_token'],
      [plain, 3, 'mean_tokens'],
    ] as const) {
      const read = async (name: string) =>
        JSON.parse(await readFile(join(run.outputDir, name), 'utf8')) as Record<string, unknown>
      assert.equal((await read('modules.json')).length, modules)
      assert.equal((await read('1_Pooling/config.json'))[`pooling_mode_${mode}`], true)
    }
    const [before = [], after = []] = await probeSpecialists(
      [bases[1]!, plain.outputDir].map((one) => ({ ask: 'embed' as const, folder: one, texts })),
    )
    const apart = before.flatMap((row, i) => row.map((value, j) => Math.abs(value - (after[i]?.[j] ?? NaN))))
    assert.ok(Math.max(...apart) < 1e-3, `${Math.max(...apart)}`)
  })

  for (const [model, signal, hyperparameters] of [
    [EMBEDDING, 'SIGKILL', {}],
    [CLASSIFIER, 'SIGTERM', { adapter: 'none' }],
  ] as const) {
    it(`resumes ${model} after ${signal} and ends with the same weights as an uninterrupted run`, async () => {
      const job = {
        model,
        ...(model === CLASSIFIER && { file: files.labelled, baseDir: distilled }),
        hyperparameters: { ...hyperparameters, save_steps: 2, micro_batch_size: 8 },
      }
      const straight = await train(`straight-${model}`, job)
      let seen = 0
      const broken = await train(`broken-${model}`, {
        ...job,
        onEvent: ({ event }) => (event === 'checkpoint' && ++seen === 6 ? signal : undefined),
      })
      const checkpoints = join(folder.path, `broken-${model}`, 'checkpoints')
      const kept = (await readdir(checkpoints))
        .filter((name) => /^checkpoint-\d+\.zip$/.test(name))
        .toSorted()

      const resumed = await train(`broken-${model}`, {
        ...job,
        resumeFrom: join(checkpoints, kept.at(-1) ?? ''),
      })

      assert.equal(straight.code, 0, straight.error?.message)
      assert.equal(broken.code, signal === 'SIGTERM' ? 75 : null)
      assert.equal(resumed.code, 0, resumed.error?.message)
      const resumeEvent = resumed.events.find(({ event }) => event === 'resumed')
      assert.ok(Number(resumeEvent?.['epoch']) >= 12)
      assert.deepEqual(resumed.result.metrics, straight.result.metrics)
      assert.equal(await digestOf(resumed), await digestOf(straight))
    })
  }

  it('distributes the work among processes, even if they hold out different numbers of batches', async () => {
    const run = await train('two', { processes: 2, hyperparameters: { epochs: 2, micro_batch_size: 13 } })

    assert.equal(run.code, 0, run.error?.message ?? run.stderr)
    assert.ok(run.result.metrics['eval_mrr']! > run.result.metrics['base_eval_mrr']!)
  })

  it('tunes a classifier further when its head has exactly these classes', async () => {
    const first = join(folder.path, `straight-${CLASSIFIER}`, 'out')

    const run = await train('further', {
      model: CLASSIFIER,
      file: files.labelled,
      baseDir: first,
      hyperparameters: { max_steps: 1, learning_rate: 1e-8, class_weight: 'balanced' },
    })

    assert.equal(run.code, 0, run.error?.message)
    assert.match(messages(run), /The base has a head for these classes/)
    assert.ok(run.result.metrics['accuracy']! > 0.6, JSON.stringify(run.result.metrics))
    const { example_input, example_output } = run.result as unknown as Record<string, Record<string, unknown>>
    assert.equal(typeof example_input?.['text'], 'string')
    assert.deepEqual(Object.keys(example_output?.['scores'] as object), ['cold', 'none', 'warm'])
  })

  it('shows the start of a long text as the example', async () => {
    const rows = labelledColours().map((row) => ({ ...row, text: `${row.text} ${'fox '.repeat(500)}` }))
    const run = await train('long', {
      model: CLASSIFIER,
      file: await writeJsonl(folder.path, rows, 'long.jsonl'),
      hyperparameters: { max_steps: 1 },
    })

    assert.equal(run.code, 0, run.error?.message)
    const { example_input, example_output } = run.result as unknown as Record<string, Record<string, unknown>>
    const text = String(example_input?.['text'])
    assert.equal(text.length, 500)
    const [warning] = run.result.metrics.warnings ?? []
    const lost =
      /^Cut the end of \d+ texts, because (?:sequence_len is|the model reads no more than) \d+ tokens; the first is in row 1\.$/
    assert.match(warning?.message ?? '', lost)
    assert.equal(warning?.row, 1)
    assert.ok(rows.some((row) => row.text.startsWith(text)))
    assert.deepEqual(Object.keys(example_output?.['scores'] as object), ['cold', 'none', 'warm'])
  })

  it('fails before training, and names the column, the row and what it expected', async () => {
    const chatty = join(folder.path, 'chatty')
    await makeTinyLlm(chatty)
    const csv = join(folder.path, 'classes.csv')
    await writeFile(csv, 'text,label\na fox,\na dog,\n')
    const written = (rows: readonly object[], name: string) => writeJsonl(folder.path, rows, name)
    const pair = { anchor: 'which fox', positive: 'a fox' }
    const labelled = { text: 'a fox', label: 'animal' }
    const cases: [string, Partial<TrainerJob>, RegExp][] = [
      ['empty', { file: await written([], 'empty.jsonl') }, /The dataset has no rows/],
      [
        'lone',
        { file: await written([pair, { ...pair, anchor: 'a' }], 'lone.jsonl') },
        /Too few rows to learn from/,
      ],
      [
        'column',
        { file: await written([{ anchor: 'a', answer: 'b' }], 'column.jsonl') },
        /positive_column names a column that the dataset does not have: 'positive'\. Its columns are: anchor, answer/,
      ],
      [
        'number',
        { file: await written([pair, { anchor: 'a', positive: 5 }], 'number.jsonl') },
        /Row 2: the column 'positive' must contain text, but here it is of type int: 5/,
      ],
      [
        'blank',
        { file: await written([pair, { anchor: ' ', positive: 'a' }], 'blank.jsonl') },
        /Row 2: the column 'anchor' must contain text, but here it is empty/,
      ],
      [
        'llama',
        { baseDir: chatty },
        /LlamaForCausalLM is not a text encoder; its family must be one of bert, /,
      ],
      [
        'alike',
        { model: CLASSIFIER, file: await written([labelled, { ...labelled, text: 'a dog' }], 'alike.jsonl') },
        /Column 'label' has the same value in every row \('animal'\); at least two classes/,
      ],
      [
        'unlabelled',
        { model: CLASSIFIER, format: 'csv', file: csv },
        /Column 'label' has no value in any of the 2 rows/,
      ],
      [
        'nested',
        { model: CLASSIFIER, file: await written([{ ...labelled, label: ['a'] }], 'nested.jsonl') },
        /Row 1: the column 'label' must contain a class .* but here it is of type list/,
      ],
    ]
    // Two at a time: importing the libraries dominates each run.
    for (let at = 0; at < cases.length; at += 2) {
      await Promise.all(
        cases.slice(at, at + 2).map(async ([name, job, reason]) => {
          const run = await train(name, job)
          assert.equal(run.code, 64, `${name}: ${run.stderr}`)
          assert.match(run.error?.message ?? '', reason)
        }),
      )
    }
  })
})
