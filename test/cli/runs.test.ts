import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTrainingActivities } from '../../activities/control/training/runs.ts'
import { curve } from '../../cli/runs/curve.ts'
import { watchRun } from '../../cli/runs/watch.ts'
import { hearth as client } from '../../client/index.ts'
import { endRun, type RunEnding } from '../../db/repositories/training/endings.ts'
import { beginAttempt } from '../../db/repositories/training/jobs.ts'
import { newId } from '../../domain/ids.ts'
import { until } from '../support/assertions/until.ts'
import { addLlmVersion } from '../support/builders/models/merges.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { claimJob, completeJob, createRun, readyDataset } from '../support/builders/training.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { type SignedNode, signedNode } from '../support/servers/nodes/signed-node.ts'

describe('hearth runs', () => {
  let api: TestApi
  let node: SignedNode
  let caller: { accountId: string; key: string }
  let hearth: HearthRunner
  before(async () => {
    api = await startApi()
    node = await signedNode(api)
  })
  after(() => api?.[Symbol.asyncDispose]())
  beforeEach(async () => {
    caller = await api.account()
    hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_API_KEY: caller.key })
  })
  afterEach(() => hearth[Symbol.dispose]())

  const dataset = () => readyDataset(api, caller.accountId)
  const run = async () => createRun(api, caller.key, { dataset_id: await dataset() })
  const begin = (runId: string) =>
    api.database.db.transaction().execute((trx) => beginAttempt(trx, runId, { attempt: 1, now: new Date() }))
  const end = (runId: string, ending: RunEnding = { status: 'completed' }) =>
    api.database.db.transaction().execute((trx) => endRun(trx, runId, ending, new Date(Date.now() - 60_000)))
  const say = (runId: string, seq: number, message: string) =>
    api.database.db
      .insertInto('job_log')
      .values({ job_id: runId, attempt: 1, seq, message, created_at: new Date() })
      .execute()
  const epoch = (runId: string, number: number, train_loss: number) =>
    api.database.db
      .insertInto('job_epoch')
      .values({ job_id: runId, epoch: number, attempt: 1, train_loss, val_loss: train_loss * 2 })
      .execute()
  const complete = async (runId: string) => {
    const { lease_token } = await claimJob(node, runId)
    const answer = await completeJob(node, lease_token)
    assert.equal(answer.status, 200, answer.text)
    await createTrainingActivities(api.services).finishRun({ jobId: runId, status: 'completed' })
  }

  it('are started by `train` with typed values and the name of a dataset', async () => {
    await readyDataset(api, caller.accountId, { columns: ['age', '2024'] })
    const started = await hearth.run([
      'train',
      'tabular-regression',
      '--dataset',
      'table',
      '-p',
      'epochs=7',
      '--param',
      'target_column=2024',
      '--name',
      'prices',
      '--mode',
      'eco',
    ])
    assert.equal(started.code, 0, started.err)
    const [one] = await hearth.json(['runs', 'ls', '--status', 'pending'])

    assert.match(started.out, new RegExp(`^Run ${one.job_id} is pending, with 0 ahead of it[^]*runs logs -f`))
    assert.deepEqual([one.job_name, one.operating_mode], ['prices', 'eco'])
    assert.equal(one.hyperparameters.epochs, 7)
    assert.equal(one.hyperparameters.target_column, '2024')
  })

  it('are watched as lines until they end, with an exit code for the outcome', async () => {
    const id = await dataset()
    const watching = hearth.start(['train', 'tabular-regression', '--dataset', id, '--watch'])
    let err = ''
    let out = ''
    watching.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
    watching.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const runs = () =>
      api.database.db
        .selectFrom('training_run')
        .select('id')
        .where('account_id', '=', caller.accountId)
        .execute()
    await until(async () => (await runs()).length === 1)
    const [{ id: runId } = { id: '' }] = await runs()
    await begin(runId)
    await say(runId, 1, 'reading \u001B[31mrows')
    await epoch(runId, 1, 0.5)
    await until(() => err.includes('epoch 1'))
    await end(runId, { status: 'failed', errorMessage: 'the disk is full' })
    const [code] = await once(watching, 'close')

    assert.equal(code, 1, err)
    assert.match(err, /reading \[31mrows\n[^]*epoch 1 {2}.*train_loss 0\.5/)
    assert.match(err, /hearth: the run failed: the disk is full\n$/)
    assert.equal(out, '')
  })

  it('show left-out columns and data warnings at the end of a watch and in `get`', async () => {
    const id = await dataset()
    const watching = hearth.start(['train', 'tabular-regression', '--dataset', id, '--watch'])
    let out = ''
    watching.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const { db } = api.database
    const begun = () =>
      db.selectFrom('training_run').select('id').where('account_id', '=', caller.accountId).executeTakeFirst()
    await until(async () => (await begun()) !== undefined)
    const runId = (await begun())?.id ?? ''
    const left_out_columns = [
      { column: 'id', reason: 'it is text with 60 different values' },
      { column: 'empty', reason: 'it has no values' },
    ]
    const warnings = [{ message: "14 rows repeat a time in 'd'; the first is row 3.", count: 14, row: 3 }]
    const metrics = JSON.stringify({ mae: 2, left_out_columns, warnings })
    await begin(runId)
    await db.updateTable('training_run').set({ metrics }).where('id', '=', runId).execute()
    await end(runId)
    await once(watching, 'close')
    const shown = await hearth.run(['runs', 'show', runId])

    const words = /'id' \(it is text with 60 different values\), 'empty' \(it has no values\)/.source
    assert.match(out, new RegExp(`mae 2\\.\nColumns left out: ${words}\\.\nWarning: 14 rows repeat`))
    assert.match(shown.out, new RegExp(`\nMeasures +mae 2\nLeft out +${words}\nWarning +14 rows`))
  })

  it('continue when a watch is stopped, and the watch says so', async () => {
    const runId = await run()
    await begin(runId)
    await say(runId, 1, 'first')
    const following = hearth.start(['runs', 'logs', '-f', runId])
    let output = ''
    for (const stream of [following.stdout, following.stderr])
      stream?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    await until(() => output.includes('first'))
    await say(runId, 2, 'second')
    await until(() => output.includes('second'))
    following.kill('SIGINT')
    const [code] = await once(following, 'close')

    assert.equal(code, 130)
    assert.equal(output.match(/first/g)?.length, 1)
    assert.match(output, /hearth: the run continues; repeat the command to follow it again\.\n$/)
    assert.equal((await hearth.json(['runs', 'get', runId])).status, 'running')
  })

  it('are redrawn in place in a terminal, with their curve', async () => {
    const runId = await run()
    await begin(runId)
    await epoch(runId, 1, 0.5)
    await epoch(runId, 2, 0.25)
    const drawn: string[] = []
    const screen = { isTTY: true, columns: 60, write: (text: string) => void drawn.push(text) }
    const watched = watchRun(
      client({ baseUrl: api.baseUrl, apiKey: caller.key }),
      { runId, name: 'fit' },
      screen,
    )
    await until(() => drawn.some((text) => text.includes('train_loss 0.25')))
    await hearth.run(['runs', 'pause', runId])
    await until(() => drawn.some((text) => text.includes('fit: paused')))
    await end(runId)

    assert.equal((await watched).status, 'completed')
    assert.match(drawn.at(-1) ?? '', /fit: completed\n[^]*\*[^]*o[^]*1 +2\n/)
    // oxlint-disable-next-line no-control-regex -- the sequences move the cursor
    assert.match(drawn.at(-1) ?? '', /^\u001B\[\d+A\u001B\[0J/)
    for (const text of drawn)
      for (const line of text.split('\n')) assert.ok(line.replace(/^.*0J/, '').length < 60, line)
  })

  it('are shown, rerun with changes, and cancelled', async () => {
    const runId = await run()
    await begin(runId)
    await epoch(runId, 1, 4)
    const shown = await hearth.run(['runs', 'get', runId])
    const metrics = await hearth.run(['runs', 'metrics', runId])
    const cancelled = await hearth.run(['runs', 'cancel', runId])
    const again = await hearth.json(['runs', 'again', runId, '-p', 'epochs=3', '--name', 'shorter'])
    const repeated = await hearth.json(['runs', 'get', again.job_id])

    assert.match(shown.out, /^Run .*\(prices\), training, attempt 1\nStatus +running\n[^]*EVENT[^]*queued/)
    assert.match(metrics.out, /\* train_loss 4|\* val_loss 8[^]*EPOCH/)
    assert.match(cancelled.out, /is cancelled/)
    assert.deepEqual([repeated.job_name, repeated.hyperparameters.epochs], ['shorter', 3])
  })

  it('are shown as paused in lists and watches, and continue when they are resumed', async () => {
    const runId = await run()
    const other = await run()
    const ids = async (...args: string[]) =>
      (await hearth.json(['runs', 'ls', ...args])).map(({ job_id }: { job_id: string }) => job_id)
    const paused = await hearth.run(['runs', 'pause', runId])
    const listed = await hearth.run(['runs', 'ls', '--status', 'paused'])
    const shown = await hearth.run(['runs', 'get', runId])
    const pending = await ids('--status', 'pending')
    const watching = hearth.start(['runs', 'resume', runId, '--watch'])
    let err = ''
    watching.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
    await until(() => err.includes('Resumed after a pause.'))
    const resumed = await ids('--status', 'pending')
    await begin(runId)
    await end(runId)
    const [code] = await once(watching, 'close')

    assert.deepEqual([paused.code, paused.out.split(';')[0]], [0, `Run ${runId} is paused`], paused.err)
    assert.match(listed.out, new RegExp(`${runId} +prices +training +paused`))
    assert.doesNotMatch(listed.out, new RegExp(other))
    assert.match(shown.out, /\nStatus +paused\n/)
    assert.deepEqual(pending, [other])
    assert.deepEqual(resumed, [other, runId])
    assert.equal(code, 0, err)
    assert.match(err, /paused\nPaused\.\n[^]*queued: after a pause/)
    const late = await hearth.run(['runs', 'pause', runId])
    assert.deepEqual([late.code, /has completed cannot be paused/.test(late.err)], [1, true], late.err)
  })

  it('are sorted by name and by age, oldest first', async () => {
    for (const name of ['b', 'c', 'a']) {
      await createRun(api, caller.key, { dataset_id: await dataset(), job_name: name })
    }
    const names = async (...args: string[]) =>
      (await hearth.json(['runs', 'ls', ...args])).map(({ job_name }: { job_name: string }) => job_name)

    assert.deepEqual(await names(), ['a', 'c', 'b'])
    assert.deepEqual(await names('--order', 'asc'), ['b', 'c', 'a'])
    assert.deepEqual(await names('--sort', 'name'), ['c', 'b', 'a'])
    assert.deepEqual(await names('--sort', 'name', '--order', 'asc', '--limit', '2'), ['a', 'b'])
  })

  it('become models that are listed, traced, downloaded and served', async () => {
    const runId = await run()
    await complete(runId)
    const created = await hearth.run(['models', 'create', 'homes', '--run', runId])
    assert.equal(created.code, 0, created.err)
    const listed = await hearth.run(['models', 'ls'])
    const served = await hearth.run([
      'endpoints',
      'create',
      `homes-${runId}`,
      '--run',
      runId,
      '--display-name',
      'Homes',
    ])
    const shown = await hearth.run(['models', 'show', 'homes'])
    const lineage = await hearth.run(['models', 'lineage', 'homes'])
    const pulled = await hearth.run(['models', 'pull', 'homes', '--to', 'files'])
    const again = await hearth.run(['models', 'pull', runId, '--to', 'files'])
    // The files of another run have the same names and sizes.
    writeFileSync(join(hearth.folder, 'files', 'model.txt'), 'old model.txt')
    const other = await hearth.run(['models', 'pull', runId, '--to', 'files'])

    assert.match(listed.out, /homes +1 /)
    assert.match(
      served.out,
      /is active\.\nTry it: npx hearth infer homes-.* -d '\{"instances":\[\{"age":40\}\]\}'/,
    )
    assert.match(
      shown.out,
      new RegExp(`homes\\), 1 versions[^]*${runId}[^]*Served by homes-${runId} \\(active\\)`),
    )
    assert.match(
      lineage.out,
      /^version prices\n`- produced: job prices\n {3}\|- .*\n {3}`- trained on: dataset table\n$/,
    )
    assert.match(pulled.out, /2 files in files, 2 of them new/)
    assert.equal(readFileSync(join(hearth.folder, 'files', 'model.txt'), 'utf8'), 'the model.txt')
    assert.match(again.out, /2 files in files, 0 of them new/)
    assert.match(other.out, /2 files in files, 1 of them new/)
    assert.ok(!existsSync(join(hearth.folder, 'files', 'model.txt.part')))
  })

  it('include merges, started with the weights of the models', async () => {
    const versions = await Promise.all(
      [{}, { seed: 1 }].map((model) => addLlmVersion(api, caller.accountId, { model })),
    )
    const sources = versions.flatMap((version) => ['--source', `version:${version}`])
    const weights = ['--weight', '0.3', '--weight', '0.7']
    const merged = await hearth.run(['merge', 'both', '--method', 'slerp', ...sources, ...weights])
    assert.equal(merged.code, 0, merged.err)
    const [one] = await hearth.json(['runs', 'ls'])

    assert.match(merged.out, new RegExp(`^Run ${one.job_id} is pending`))
    assert.deepEqual([one.job_name, one.job_type, one.hyperparameters.method], ['both', 'merge', 'slerp'])
    assert.deepEqual(one.hyperparameters.weights, [0.3, 0.7])
  })

  it('are rejected with the name of the wrong field; `models trainable` lists configs and parameters', async () => {
    const id = newId()
    const merge = [
      'merge',
      'both',
      '--source',
      `version:${id}`,
      '--source',
      `run:${id}`,
      '--weight',
      '0.5',
      '--weight',
      '0.5',
    ]
    const refused = await hearth.run(merge)
    const configs = await hearth.run(['models', 'trainable'])
    const one = await hearth.run(['models', 'trainable', 'tabular-regression'])

    assert.deepEqual([refused.code, /sources/.test(refused.err)], [2, true], refused.err)
    assert.match(configs.out, /tabular-regression +regression +CPU/)
    assert.match(one.out, /epochs +integer +100 +How many epochs/)
  })

  const ID = newId()
  for (const [args, pattern, exit] of [
    [['train', 'nope', '--dataset', ID], /model_config_id: there is no model config nope/, 2],
    [['train', 'tabular-regression', '--dataset', ID], /dataset/, 2],
    [['train', 'tabular-regression', '--dataset', ID, '-p', 'epochs'], /name=value, such as epochs=50/, 2],
    [
      ['train', 'tabular-regression', '--dataset', ID, '-p', 'epoch=3'],
      /epoch: .*did you mean "epochs"\?/,
      2,
    ],
    [
      ['train', 'tabular-regression', '--dataset', ID, '--base', 'x'],
      /version:<version_id>, run:<run_id>/,
      2,
    ],
    [['train', 'tabular-regression'], /--dataset/, 2],
    [['runs', 'get', 'x'], /"x" is not an id/, 2],
    [['runs', 'get', ID], /not_found/, 1],
    [['runs', 'logs', ID], /not_found/, 1],
    [['runs', 'again', ID], /not_found/, 1],
    [['runs', 'ls', '--limit', 'all'], /whole number/, 2],
    [['runs', 'ls', '--sort', 'status'], /created_at, name/, 2],
    [['runs', 'ls', '--order', 'up'], /asc, desc/, 2],
    [['runs', 'pause', ID], /not_found/, 1],
    [['runs', 'resume', ID], /not_found/, 1],
    [['merge', 'both', '--weight', 'x'], /a number, such as 0\.5/, 2],
    [['merge', 'both', '--source', 'hf:a/b'], /sources/, 2],
    [['models', 'show', 'nobody'], /no model is named nobody; .*models ls/, 2],
    [['models', 'pull', ID], /not_found/, 1],
    [['endpoints', 'create', 'A B', '--run', ID], /lower-case/, 2],
    [['endpoints', 'create', 'a'], /--run/, 2],
  ] as const) {
    it(`explains what is wrong with "${args.join(' ').replaceAll(ID, 'ID')}"`, async () => {
      const { code, err, out } = await hearth.run(args)
      assert.deepEqual([code, out], [exit, ''], err)
      assert.match(err, pattern)
      assert.equal(err.trim().split('\n').length, 1, err)
    })
  }
})

describe("a run's curve", () => {
  it('has the maximum at the top, the minimum at the bottom, and the last values below', () => {
    const points = [10, 5, 2.5, 0].map((value, i) => [i + 1, value] as const)
    const lines = curve([{ name: 'loss', points }], { width: 40, height: 5 })

    assert.match(lines[0] ?? '', /^ {7}10 \|\*$/)
    assert.match(lines[4] ?? '', /^ {8}0 \| +\*$/)
    assert.match(lines[5] ?? '', /^ +1 +4$/)
    assert.match(lines[6] ?? '', /\* loss 0$/)
    assert.ok(lines.every((line) => line.length <= 40))
  })

  it('handles a single point and no points', () => {
    assert.equal(curve([{ name: 'loss', points: [] }], { width: 40, height: 5 }).length, 0)
    assert.equal(
      curve([{ name: 'loss', points: [[3, 1]] }], { width: 40, height: 5 })
        .join('')
        .match(/\*/g)?.length,
      2,
    )
  })
})
