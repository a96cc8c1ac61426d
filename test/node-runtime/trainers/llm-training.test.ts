import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sumRows, writeJsonl } from '../../support/builders/chat-rows.ts'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, type TrainerJob, type TrainerRun } from '../../support/servers/nodes/trainer.ts'

const MODEL = 'llm-qlora-finetune'
const QUICK = { epochs: 2, sequence_len: 128, learning_rate: 0.01, gradient_accumulation_steps: 2 }

const messages = (run: TrainerRun): string =>
  run.events
    .filter(({ event }) => event === 'log')
    .map(({ message }) => String(message))
    .join('\n')

describe('fine-tuning a language model', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  const base = join(folder.path, 'base')
  let file: string

  before(requireLlm)
  before(async () => {
    await makeTinyLlm(base)
    file = await writeJsonl(folder.path, sumRows(40))
  })
  after(() => folder[Symbol.dispose]())

  const train = (name: string, hyperparameters: object, more: Partial<TrainerJob> = {}) =>
    runTrainer({
      folder: join(folder.path, name),
      model: MODEL,
      format: 'jsonl',
      file,
      baseDir: base,
      hyperparameters: { ...QUICK, ...hyperparameters },
      ...more,
    })

  for (const adapter of ['qlora', 'lora', 'none']) {
    it(`learns with adapter ${adapter}, reports its losses and saves a servable model`, async () => {
      const run = await train(adapter, { adapter, val_set_size: 0.2 })

      assert.equal(run.code, 0, run.error?.message)
      const { metrics } = run.result
      assert.deepEqual(
        metrics.epochs.map(({ epoch }) => epoch),
        [1, 2],
      )
      const [first, last] = metrics.epochs as unknown as Record<string, number>[]
      assert.ok(first && last && last['train_loss']! < first['train_loss']!)
      assert.equal(metrics['eval_loss'], last['val_loss'])
      assert.ok(Math.abs(metrics['eval_perplexity']! - Math.exp(metrics['eval_loss']!)) < 1e-6)
      // 16 steps per epoch: the cosine ends at a tenth of the peak.
      assert.match(messages(run), /Step 32 of 32: loss [\d.]+, learning rate 0\.001,/)
      const names = run.events.filter(({ event }) => event === 'artifact').map(({ name }) => String(name))
      for (const name of ['config.json', 'model.safetensors', 'tokenizer.json', 'chat_template.jinja'])
        assert.ok(names.includes(`model/${name}`), names.join())
      assert.equal(names.includes('adapter/adapter_model.safetensors'), adapter !== 'none')
      const config = JSON.parse(await readFile(join(run.outputDir, 'model', 'config.json'), 'utf8')) as object
      assert.equal('quantization_config' in config, false)
    })
  }

  it("saves an adapter that names its base model and the base's commit", async () => {
    const name = 'hearth://model_version/01a204be-83bc-7496-922a-43cb4c775428'
    for (const [base_model, baseRevision] of [
      ['acme/tiny', 'b'.repeat(40)],
      [name, undefined],
    ] as const) {
      const run = await train(
        `named-${baseRevision ?? 'version'}`,
        { adapter: 'lora', max_steps: 1, base_model },
        baseRevision ? { baseRevision } : {},
      )
      assert.equal(run.code, 0, run.error?.message)
      const path = join(run.outputDir, 'adapter', 'adapter_config.json')
      const config = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
      assert.deepEqual(
        [config['base_model_name_or_path'], config['revision']],
        [base_model, baseRevision ?? null],
      )
    }
  })

  it('folds the adapter into the unquantized base', async () => {
    const requests = ['lora', 'qlora'].map((adapter) => ({
      ask: 'logits',
      base,
      adapter: join(folder.path, adapter, 'out', 'adapter'),
      merged: join(folder.path, adapter, 'out', 'model'),
    }))

    const found = await probeLlm<{ difference: number; moved: number }[]>(requests)

    for (const { difference, moved } of found)
      assert.ok(difference < 0.02 && moved > 10 * difference, `${moved}`)
  })

  it('stops after max_steps, whatever the number of epochs, and keeps a constant rate if configured', async () => {
    const run = await train('steps', {
      adapter: 'lora',
      max_steps: 3,
      lr_scheduler: 'constant',
      sample_packing: true,
    })

    assert.equal(run.code, 0, run.error?.message)
    assert.match(messages(run), /Step 3 of 3: loss [\d.]+, learning rate 0\.01,/)
    assert.equal(run.result.metrics.epochs.length, 1)
    assert.equal('eval_loss' in run.result.metrics, false)
  })

  it('rejects an 8-bit optimizer without a CUDA device before it trains', async () => {
    const run = await train('eight', { optimizer: 'paged_adamw_8bit' })

    assert.equal(run.code, 64)
    assert.equal(run.error?.code, 'needs_cuda')
    assert.match(run.error.message, /needs a CUDA device, but this node trains on cpu/)
  })

  it("names the row that it can't learn from", async () => {
    const rows = [...sumRows(2), { instruction: 'Add' }]
    const broken = await writeJsonl(folder.path, rows, 'broken.jsonl')

    const run = await train('broken', {}, { file: broken })

    assert.equal(run.code, 64)
    assert.deepEqual([run.error?.code, run.error?.column, run.error?.row], ['bad_data', 'output', 3])
    assert.equal(run.error?.message, 'Row 3: output is missing.')
  })

  it('distributes the work among processes that resume together and stop together', async () => {
    const hyperparameters = { adapter: 'lora', epochs: 6, save_steps: 24, val_set_size: 0.2 }
    const straight = await train('two', hyperparameters, { processes: 2 })
    const halfway = straight.events.find(({ event }) => event === 'checkpoint')
    const resumed = await train('two', hyperparameters, {
      processes: 2,
      resumeFrom: String(halfway?.['path']),
      onEvent: ({ event, epoch }) => (event === 'metric' && epoch === 4 ? 'SIGTERM' : undefined),
    })

    assert.deepEqual([straight.code, resumed.code], [0, 75], messages(resumed))
    // 32 rows, two at a time in each of two processes.
    assert.match(messages(straight), /48 steps, 8 per epoch/)
    const { event: _, timestamp: _at, ...metrics } = resumed.events.find(({ event }) => event === 'metric')!
    assert.deepEqual(metrics, straight.result.metrics.epochs[3])
    const stopped = resumed.events.findLast(({ event }) => event === 'checkpoint')
    assert.ok(Number(stopped?.['epoch']) > 32, JSON.stringify(stopped))
  })
})
