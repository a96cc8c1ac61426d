import assert from 'node:assert/strict'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'

describe('hearth endpoints scale', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let hearth: HearthRunner
  let name: string
  let id: string
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())
  beforeEach(async () => {
    // The copy quota belongs to the account.
    caller = await api.account()
    hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_API_KEY: caller.key })
    ;({ name, id } = await buildEndpoint(api.database.db, caller.accountId))
  })

  afterEach(() => hearth[Symbol.dispose]())

  const scale = (...options: string[]) => hearth.run(['endpoints', 'scale', name, ...options])
  /** Runs a command and returns the resulting settings, in the form that `PUT` accepts. */
  const settings = async (...options: string[]) => {
    const { code, err } = await scale(...options)
    assert.equal(code, 0, err)
    const { body } = await api.call('GET', `/api/builder/v1/endpoints/${id}/scaling`, { key: caller.key })
    const { min, max, target_in_flight, target_wait_ms, idle_timeout_s, schedule } = body
    return { min, max, target_in_flight, target_wait_ms, idle_timeout_s, schedule }
  }

  it('shows the default settings of an endpoint and stores nothing', async () => {
    const { out, err } = await scale()
    const stored = await api.database.db
      .selectFrom('endpoint_scaling')
      .selectAll()
      .where('endpoint_id', '=', id)
      .execute()

    assert.match(out, new RegExp(`^Endpoint +${name}, model `), err)
    assert.match(
      out,
      /\nCopies +0 wanted, 0 loaded, 0 loading\nMin +0\nMax +1\nTarget +what the model serves/,
    )
    assert.match(
      out,
      /\nIdle +unloaded after each node's HEARTH_IDLE_UNLOAD_S\nQuota +the account reserves 0 of \d+ copies/,
    )
    assert.deepEqual(stored, [])
  })

  it('changes only the given options, and replaces one kind of target with the other kind', async () => {
    const schedule = ['--schedule', '0 8 * * 1-5 Europe/Berlin 2', '--schedule', ' 0  20 * * *  UTC 0 ']
    const entries = [
      { cron: '0 8 * * 1-5', timezone: 'Europe/Berlin', min: 2 },
      { cron: '0 20 * * *', timezone: 'UTC', min: 0 },
    ]
    const first = {
      min: 0,
      max: 3,
      target_in_flight: 8,
      target_wait_ms: null,
      idle_timeout_s: 300,
      schedule: entries,
    }
    const waiting = { ...first, target_in_flight: null, target_wait_ms: 500 }

    assert.deepEqual(
      await settings('--max', '3', '--target-in-flight', '8', '--idle-timeout', '300', ...schedule),
      first,
    )
    assert.deepEqual(await settings('--target-wait-ms', '500'), waiting)
    assert.deepEqual(await settings('--max', '4', '--no-schedule'), { ...waiting, max: 4, schedule: [] })
    assert.deepEqual(await settings('--target-in-flight', 'default', '--idle-timeout', 'default'), {
      ...first,
      max: 4,
      target_in_flight: null,
      idle_timeout_s: null,
      schedule: [],
    })
  })

  it('shows why copies are missing, the schedule, and the last changes with their reasons', async () => {
    const { out, err } = await scale(
      '--min',
      '1',
      '--max',
      '2',
      '--target-wait-ms',
      '250',
      '--idle-timeout',
      '0',
      '--schedule',
      '0 8 * * * UTC 1',
    )
    const scaling = await hearth.json(['endpoints', 'scale', id])

    assert.match(out, /\nCopies +1 wanted, 0 loaded, 0 loading\nWhy fewer +.*no .*node/, err)
    assert.match(
      out,
      /\nTarget +250 ms of waiting\nIdle +never unloaded\nSchedule +0 8 \* \* \* UTC: at least 1\n/,
    )
    assert.match(out, /\n\nCHANGED +COPIES +WHY\n\S+Z +0 -> 1 +at least 1 copy is wanted by the schedule\n$/)
    assert.deepEqual(
      [scaling.min, scaling.copies.wanted, scaling.changes[0].reason],
      [1, 1, 'at least 1 copy is wanted by the schedule'],
    )
  })

  for (const [fault, options, pattern] of [
    ['an invalid number', ['--min', 'two'], /--min <n>.* whole number/],
    ['an idle timeout with a unit', ['--idle-timeout', '5m'], /--idle-timeout .* whole number .* or default/],
    ['two targets', ['--target-in-flight', '8', '--target-wait-ms', '500'], /cannot be used with/],
    ['a schedule without a time zone', ['--schedule', '0 8 * * 1-5 2'], /five cron fields, a time zone/],
    [
      'an invalid cron expression',
      ['--schedule', '0 99 * * * UTC 1'],
      /schedule.*cron: the hour is not valid: 99/,
    ],
    ['an unknown time zone', ['--schedule', '0 8 * * * Nowhere 1'], /timezone.* such as Europe\/Berlin/],
    ['a min above the max', ['--min', '2', '--max', '1'], /min: must be at most max, which is 1/],
    ['a max of 0', ['--max', '0'], /max: must be/],
  ] as const) {
    it(`rejects ${fault}`, async () => {
      const { code, err } = await scale(...options)

      assert.equal(code, 2, err)
      assert.match(err, pattern)
    })
  }

  it('requires an admin key of the account that owns the endpoint', async () => {
    const viewer = { HEARTH_API_KEY: await api.key(caller.accountId, 'viewer') }
    const shown = await hearth.run(['endpoints', 'scale', name], { env: viewer })
    const refused = await hearth.run(['endpoints', 'scale', name, '--max', '2'], { env: viewer })

    assert.equal(shown.code, 0, shown.err)
    assert.deepEqual([refused.code, /role/.test(refused.err)], [1, true], refused.err)
  })
})
