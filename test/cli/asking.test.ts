import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EndpointRow } from '../../db/tables/models.ts'
import { newId } from '../../domain/ids.ts'
import { buildHeldTask } from '../support/builders/build-endpoint.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/worlds/inference-world.ts'

describe('hearth infer, tasks and endpoints', () => {
  let world: InferenceWorld
  let hearth: HearthRunner
  let endpoint: EndpointRow
  const stack = new AsyncDisposableStack()
  before(async () => {
    world = stack.use(await startInferenceWorld())
    hearth = stack.use(new HearthRunner({ HEARTH_BASE_URL: world.api.baseUrl, HEARTH_API_KEY: world.key }))
    stack.use(await world.control())
    stack.use(await world.node())
    endpoint = await world.endpoint({ name: 'echo' }, { name: 'echo-one' })
  })
  after(() => stack.disposeAsync())

  it('infers with JSON, a file and standard input, and waits for a request that times out', async () => {
    writeFileSync(join(hearth.folder, 'input.json'), '{"instances": ["filed"]}')
    const cold = await hearth.run(['infer', 'echo-one', '-d', '{"instances": ["cold"]}', '--timeout', '1'])
    const filed = await hearth.run(['infer', endpoint.id, '-d', '@input.json'])
    const piped = await hearth.json(['infer', 'echo-one', '-d', '@-'], { stdin: '{"instances": ["piped"]}' })

    assert.equal(cold.code, 0, cold.err)
    assert.deepEqual(JSON.parse(cold.out).predictions, ['cold'])
    assert.deepEqual(JSON.parse(filed.out).predictions, ['filed'])
    assert.deepEqual([piped.status, piped.result.predictions], ['succeeded', ['piped']])
  })

  it('infers asynchronously, and lists, shows and waits for the task', async () => {
    const accepted = await hearth.json(['infer', 'echo-one', '-d', '{"instances": ["later"]}', '--async'])
    const waited = await hearth.run(['tasks', 'wait', accepted.task_id])
    const shown = await hearth.run(['tasks', 'get', accepted.task_id])
    const listed = await hearth.run(['tasks', 'ls', '--status', 'succeeded', '--endpoint', endpoint.id])
    const [oldest] = await hearth.json(['tasks', 'ls', '--order', 'asc', '--limit', '1'])
    const [newest] = await hearth.json(['tasks', 'ls', '--limit', '1'])
    const late = await hearth.run(['tasks', 'cancel', accepted.task_id])

    assert.deepEqual(JSON.parse(waited.out).predictions, ['later'])
    assert.match(shown.out, /^Task .* on endpoint .*\nStatus +succeeded\n[^]*"later"/)
    assert.match(listed.out, new RegExp(`${accepted.task_id} +succeeded +rest`))
    assert.equal(newest.task_id, accepted.task_id)
    assert.ok(oldest.task_id < newest.task_id)
    assert.deepEqual([late.code, /\(conflict\)/.test(late.err)], [1, true], late.err)
  })

  it('exits with 1 and prints the reason when a task fails', async () => {
    const { code, err } = await hearth.run([
      'infer',
      'echo-one',
      '-d',
      '{"instances": [1], "refuse": "no such row"}',
    ])

    assert.equal(code, 1, err)
    assert.match(err, /no such row/)
  })

  it('shows the usage by day and by endpoint', async () => {
    await hearth.run(['infer', 'echo-one', '-d', '{"instances": ["used"]}'])
    const days = await hearth.run(['usage'])
    const found = await hearth.json([
      'usage',
      '--by',
      'endpoint',
      '--from',
      new Date().toISOString().slice(0, 10),
    ])

    assert.match(days.out, /^DAY +REQUESTS [^]*\n\d{4}-\d\d-\d\d +\d+ /)
    assert.ok(
      found.rows.some(
        ({ name, requests }: { name: string; requests: number }) => name === 'echo-one' && requests > 0,
      ),
    )
  })

  it('shows the ledger entries across pages, and the balance', async () => {
    const { db } = world.api.database
    const { accountId, key } = await world.api.account()
    const env = { HEARTH_API_KEY: key }
    const spent = 103
    for (let i = 0; i < spent; i++) await buildHeldTask(db, accountId)

    const all = await hearth.json(['ledger', '--limit', '500'], { env })
    const few = await hearth.run(['ledger', '--limit', '2'], { env })
    const later = await hearth.json(['ledger', '--from', '2099-01-01'], { env })

    assert.equal(all.entries.length, spent)
    assert.equal(new Set(all.entries.map(({ task_id }: { task_id: string }) => task_id)).size, spent)
    assert.equal(all.balance.micro, -all.period.spent_micro)
    const [headings, first, second, sum, ...rest] = few.out.split('\n')
    assert.match(headings ?? '', /^TIME +KIND +CREDITS +TASK +STAGE/)
    assert.match(first ?? '', new RegExp(`hold +-[\\d.e-]+ +${all.entries[0].task_id} `))
    assert.match(second ?? '', new RegExp(all.entries[1].task_id))
    const { period, balance } = all
    assert.equal(
      sum,
      `${period.spent_credits} credits spent in the period; the balance is ${balance.credits}.`,
    )
    assert.deepEqual(rest, [''])
    assert.deepEqual([later.entries, later.period.spent_micro], [[], 0])
  })

  it('lists, shows, pauses, resumes and deletes endpoints', async () => {
    await world.endpoint({ name: 'gone' }, { name: 'gone-soon' })
    const listed = await hearth.run(['endpoints', 'ls', '--search', 'soon'])
    const shown = await hearth.run(['endpoints', 'show', 'gone-soon'])
    const paused = await hearth.run(['endpoints', 'pause', 'gone-soon'])
    const refused = await hearth.run(['infer', 'gone-soon', '-d', '{}'])
    const resumed = await hearth.run(['endpoints', 'resume', 'gone-soon'])
    const removed = await hearth.run(['endpoints', 'rm', 'gone-soon'])

    assert.match(listed.out, /^NAME [^]*\ngone-soon .* active +cold /)
    assert.match(shown.out, /^Endpoint +gone-soon \(.*\), active/)
    assert.match(paused.out, /gone-soon is paused/)
    assert.deepEqual([refused.code, /paused/.test(refused.err)], [1, true], refused.err)
    assert.match(resumed.out, /gone-soon is active/)
    assert.match(removed.out, /^Deleted endpoint gone-soon\.$/m)
  })

  it('changes the price and description of an endpoint, and says when the change needs a review', async () => {
    const { id } = await world.endpoint({ name: 'dear' }, { name: 'dear-one' })
    const listing = ['--display-name', 'Dear', '--description', 'Says what it is told.']
    const priced = await hearth.run(['endpoints', 'update', 'dear-one', '--price', '0.25'])
    const worded = await hearth.json(['endpoints', 'update', 'dear-one', ...listing])
    await world.api.database.db
      .updateTable('endpoint')
      .set({ visibility: 'public', review_status: 'approved', tags: ['echo'] })
      .where('id', '=', id)
      .execute()
    const free = await hearth.run(['endpoints', 'update', id, '--price', '0'])

    assert.equal(priced.out, 'dear-one costs 0.25 USD per request.\n', priced.err)
    assert.deepEqual(
      [worded.display_name, worded.description, worded.price_per_request],
      ['Dear', 'Says what it is told.', 0.25],
    )
    assert.equal(free.out, 'dear-one costs 0 USD per request. It is waiting for review.\n', free.err)
  })

  const ID = newId()
  for (const [args, pattern, exit] of [
    [['infer', 'echo-one'], /--data/, 2],
    [['infer', 'echo-one', '-d', '{x'], /--data is not JSON/, 2],
    [['infer', 'echo-one', '-d', '[1]'], /must be a JSON object/, 2],
    [['infer', 'echo-one', '-d', '@nowhere.json'], /--data @nowhere\.json cannot be read/, 2],
    [['infer', 'nobody', '-d', '{}'], /no endpoint with this id or name/, 1],
    [['infer', 'echo-one', '-d', '{}', '--timeout', '9999'], /sync_timeout_s/, 2],
    [['tasks', 'get', 'x'], /"x" is not an id/, 2],
    [['tasks', 'wait', ID], /not_found/, 1],
    [['tasks', 'ls', '--status', 'gone'], /status/, 2],
    [['tasks', 'ls', '--since', 'yesterday'], /2026-11-30/, 2],
    [['ledger', '--to', 'tomorrow'], /2026-11-30/, 2],
    [['usage', '--by', 'moon'], /day, endpoint, key, model/, 2],
    [['endpoints', 'pause', 'nobody'], /not_found/, 1],
    [['endpoints', 'update', 'echo-one'], /--price, --display-name or --description/, 2],
    [['endpoints', 'update', 'echo-one', '--price', '-1'], /at least 0/, 2],
    [['endpoints', 'update', 'nobody', '--price', '1'], /not_found/, 1],
    [['endpoints', 'ls', '--source', 'x'], /catalog, trained/, 2],
  ] as const) {
    it(`explains what is wrong with "${args.join(' ').replaceAll(ID, 'ID')}"`, async () => {
      const { code, err, out } = await hearth.run(args)
      assert.deepEqual([code, out], [exit, ''], err)
      assert.match(err, pattern)
      assert.equal(err.trim().split('\n').length, 1, err)
    })
  }
})
