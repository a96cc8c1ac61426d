import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { houseRows, reviewRows, salesRows, writeCsv } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, treesOf, type TrainerJob, type TrainerRun } from '../../support/servers/nodes/trainer.ts'

const CHECKPOINTS = { checkpoint_every_epochs: 20 }

/** Returns the latest complete checkpoint of a stopped run. */
async function newestCheckpoint(folder: string): Promise<string> {
  const names = (await readdir(join(folder, 'checkpoints'))).filter((name) => name.endsWith('.zip'))
  const newest = names.toSorted().at(-1)
  assert.ok(newest && !newest.startsWith('.'))
  return join(folder, 'checkpoints', newest)
}

/** Interrupts a job with `signal` at its second checkpoint, then resumes it. */
async function interrupted(job: TrainerJob, signal: NodeJS.Signals): Promise<[TrainerRun, TrainerRun]> {
  let seen = 0
  const first = await runTrainer({
    ...job,
    onEvent: ({ event }) => (event === 'checkpoint' && ++seen === 2 ? signal : undefined),
  })
  const second = await runTrainer({ ...job, resumeFrom: await newestCheckpoint(job.folder) })
  return [first, second]
}

describe('an interrupted training run', () => {
  const jobs: [string, string, () => Parameters<typeof writeCsv>[1], Record<string, unknown>][] = [
    [
      'regression',
      'tabular-regression',
      () => houseRows(800),
      { epochs: 1500, colsample_bytree: 0.6, num_leaves: 4 },
    ],
    ['forecast', 'time-series-forecast', () => salesRows(300), { epochs: 300, horizon: 4, num_leaves: 4 }],
    ['texts', 'text-classification', () => reviewRows(600), { epochs: 300, early_stopping_epochs: 290 }],
  ]
  for (const [what, model, rows, hyperparameters] of jobs) {
    describe(what, () => {
      const folder = temporaryFolder()
      let job: Omit<TrainerJob, 'folder'>
      let straight: TrainerRun
      before(async () => {
        const file = await writeCsv(folder.path, rows())
        job = { model, file, hyperparameters: { ...CHECKPOINTS, ...hyperparameters } }
        straight = await runTrainer({ ...job, folder: join(folder.path, 'straight') })
        assert.equal(straight.code, 0, straight.error?.message)
      })
      after(() => folder[Symbol.dispose]())

      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        it(`produces exactly the same model after ${signal} as an uninterrupted run`, async () => {
          const [first, second] = await interrupted({ ...job, folder: join(folder.path, signal) }, signal)

          assert.equal(first.code, signal === 'SIGTERM' ? 75 : null)
          assert.equal(second.code, 0, second.error?.message)
          const resumed = second.events.find(({ event }) => event === 'resumed')
          assert.ok(Number(resumed?.['epoch']) >= 40)
          const firstMetric = second.events.find(({ event }) => event === 'metric')
          assert.equal(firstMetric?.['epoch'], Number(resumed?.['epoch']) + 1)
          assert.deepEqual(second.result.metrics, straight.result.metrics)
          assert.deepEqual(second.result.example_output, straight.result.example_output)
          if (model !== 'text-classification') assert.equal(await treesOf(second), await treesOf(straight))
        })
      }
    })
  }

  it('keeps the epoch in which it stopped, and at most three checkpoints', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(800))
    const job = { folder: folder.path, model: 'tabular-regression', file }
    const hyperparameters = { epochs: 1500, num_leaves: 4, ...CHECKPOINTS }

    const stopped = await runTrainer({
      ...job,
      hyperparameters,
      onEvent: ({ event, epoch }) => (event === 'metric' && epoch === 130 ? 'SIGTERM' : undefined),
    })

    assert.equal(stopped.code, 75)
    const metrics = stopped.events.filter(({ event }) => event === 'metric')
    const saved = stopped.events.findLast(({ event }) => event === 'checkpoint')
    assert.equal(saved?.['epoch'], metrics.at(-1)?.['epoch'])
    assert.equal((await readdir(join(folder.path, 'checkpoints'))).length, 3)
  })

  it('starts over, and reports it, when the checkpoint has a different configuration or is damaged', async () => {
    using folder = temporaryFolder()
    const file = await writeCsv(folder.path, houseRows(100))
    const job = { folder: folder.path, model: 'tabular-regression', file }
    await runTrainer({ ...job, hyperparameters: { epochs: 30, checkpoint_every_epochs: 10 } })
    const checkpoint = await newestCheckpoint(folder.path)
    const damaged = join(folder.path, 'damaged.zip')
    await writeFile(damaged, 'PK not a checkpoint')

    for (const [resumeFrom, reason] of [
      [checkpoint, /another configuration/],
      [damaged, /cannot be read/],
      [join(folder.path, 'absent.zip'), /cannot be read/],
    ] as const) {
      const run = await runTrainer({ ...job, resumeFrom, hyperparameters: { epochs: 30, num_leaves: 5 } })

      assert.equal(run.code, 0)
      assert.ok(run.events.some(({ event, message }) => event === 'log' && reason.test(String(message))))
      assert.equal(run.events.find(({ event }) => event === 'metric')?.['epoch'], 1)
    }
  })
})
