import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sumRows, writeJsonl } from '../../support/builders/chat-rows.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, type TrainerJob, type TrainerRun } from '../../support/servers/nodes/trainer.ts'

const COMMON = {
  epochs: 3,
  sequence_len: 128,
  learning_rate: 0.01,
  gradient_accumulation_steps: 2,
  save_steps: 3,
  val_set_size: 0.2,
}

/** Returns the checkpoints of a run, oldest first. */
async function checkpointsOf(folder: string): Promise<string[]> {
  const names = await readdir(join(folder, 'checkpoints'))
  const kept = names.filter((name) => /^checkpoint-\d+\.zip$/.test(name)).toSorted()
  return kept.map((name) => join(folder, 'checkpoints', name))
}

/** Returns the digest of every weight file of a run. */
async function weightsOf({ outputDir }: TrainerRun, adapter: string): Promise<string[]> {
  const files = [
    'model/model.safetensors',
    ...(adapter === 'none' ? [] : ['adapter/adapter_model.safetensors']),
  ]
  const bytes = await Promise.all(files.map((name) => readFile(join(outputDir, name))))
  return bytes.map((one) => createHash('sha256').update(one).digest('hex'))
}

async function assertSame(resumed: TrainerRun, straight: TrainerRun, adapter: string): Promise<void> {
  assert.equal(straight.code, 0, straight.error?.message)
  assert.equal(resumed.code, 0, resumed.error?.message)
  const resumeEvent = resumed.events.find(({ event }) => event === 'resumed')
  assert.ok(Number(resumeEvent?.['epoch']) >= 12)
  assert.deepEqual(resumed.result.metrics, straight.result.metrics)
  assert.deepEqual(await weightsOf(resumed, adapter), await weightsOf(straight, adapter))
}

describe('an interrupted fine-tuning run', function () {
  this.timeout(600_000)
  const folder = temporaryFolder()
  const base = join(folder.path, 'base')
  let file: string

  before(requireLlm)
  before(async () => {
    await makeTinyLlm(base)
    file = await writeJsonl(folder.path, sumRows(25))
  })
  after(() => folder[Symbol.dispose]())

  const job = (name: string, adapter: string): TrainerJob => ({
    folder: join(folder.path, name),
    model: 'llm-qlora-finetune',
    format: 'jsonl',
    file,
    baseDir: base,
    cacheDir: join(folder.path, 'cache'),
    hyperparameters: { ...COMMON, adapter },
  })

  for (const [adapter, signal] of [
    ['qlora', 'SIGKILL'],
    ['lora', 'SIGTERM'],
  ] as const) {
    it(`reaches the losses and weights of an uninterrupted run after ${signal}: ${adapter}`, async () => {
      const straight = await runTrainer(job(`straight-${adapter}`, adapter))
      const broken = job(`broken-${adapter}`, adapter)
      let seen = 0
      const first = await runTrainer({
        ...broken,
        // The stop arrives in the middle of the second epoch, after an evaluation.
        onEvent: ({ event }) => (event === 'checkpoint' && ++seen === 4 ? signal : undefined),
      })
      const second = await runTrainer({ ...broken, resumeFrom: (await checkpointsOf(broken.folder)).at(-1) })

      assert.equal(first.code, signal === 'SIGTERM' ? 75 : null)
      await assertSame(second, straight, adapter)
    })
  }

  it('resumes training of all weights mid-epoch with the same result as an uninterrupted run', async () => {
    const straight = await runTrainer(job('straight-none', 'none'))
    const { folder: earlier } = job('straight-none', 'none')

    const second = await runTrainer({
      ...job('again', 'none'),
      resumeFrom: (await checkpointsOf(earlier))[0],
    })

    await assertSame(second, straight, 'none')
  })

  it('starts over, and reports it, when any setting that shapes the model has changed', async () => {
    const { folder: earlier } = job('straight-lora', 'lora')
    const changed = job('changed', 'lora')
    const hyperparameters = { ...COMMON, adapter: 'lora', lora_alpha: 8, max_steps: 1 }

    const run = await runTrainer({
      ...changed,
      hyperparameters,
      resumeFrom: (await checkpointsOf(earlier)).at(-1),
    })

    assert.equal(run.code, 0, run.error?.message)
    const logLines = run.events.filter(({ event }) => event === 'log').map(({ message }) => String(message))
    assert.ok(logLines.some((line) => /another configuration, base or dataset/.test(line)))
    assert.equal(
      run.events.some(({ event }) => event === 'resumed'),
      false,
    )
  })
})
