import assert from 'node:assert/strict'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'

describe('hearth login and profiles', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let hearth: HearthRunner
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())
  beforeEach(() => {
    hearth = new HearthRunner()
  })
  afterEach(() => hearth[Symbol.dispose]())

  const login = (...more: string[]) =>
    hearth.run(['login', '--base-url', api.baseUrl, ...more], { stdin: `${caller.key}\n` })
  const config = () => join(hearth.folder, 'hearth', 'config.json')

  it('stores the login in a file that only the user can read, and never prints the key', async () => {
    const ran = await login()
    const me = await hearth.run(['whoami'])
    const status = await hearth.run(['status'])

    assert.equal(ran.code, 0, ran.err)
    assert.match(ran.out, /as test with role admin\. Commands now use profile default/)
    assert.equal(statSync(config()).mode & 0o777, 0o600)
    assert.match(me.out, new RegExp(`Account +test \\(${caller.accountId}\\)`))
    assert.match(me.out, /Key .*\(from profile default\)\nOperations key +not known/)
    assert.match(status.out, /is degraded[^]*accepts new work[^]*0 open tasks and 0 open runs/)
    for (const { out, err } of [ran, me, status]) assert.ok(!(out + err).includes(caller.key))
  })

  it('prefers flags over the environment, the profile and the local platform, in that order', async () => {
    const other = await api.account()
    const ready = {
      base_url: api.baseUrl,
      operations_key: OPERATIONS_KEY,
      api_key: other.key,
      account_id: other.accountId,
    }
    writeFileSync(join(hearth.folder, 'ready.json'), JSON.stringify(ready))
    const from = async (args: string[], env: NodeJS.ProcessEnv = {}) => {
      const { account, from: places } = await hearth.json(['whoami', ...args], { env })
      return [account.id, places.api_key_from, places.base_url_from]
    }
    const env = { HEARTH_API_KEY: other.key, HEARTH_BASE_URL: api.baseUrl }
    const here = 'the local platform'

    assert.deepEqual(await from([]), [other.accountId, here, here])
    await login()
    assert.deepEqual(await from([]), [caller.accountId, 'profile default', 'profile default'])
    const made = await hearth.json(['keys', 'create', '--name', 'mine'])
    assert.equal(made.account_id, caller.accountId, 'the key belongs to the account that whoami reports')
    const mine = await hearth.json(['keys', 'list'])
    assert.ok(mine.every(({ account_id }: { account_id: string }) => account_id === caller.accountId))
    assert.deepEqual(await from([], env), [other.accountId, 'HEARTH_API_KEY', 'HEARTH_BASE_URL'])
    assert.deepEqual(await from(['--api-key', caller.key, '--base-url', api.baseUrl], env), [
      caller.accountId,
      '--api-key',
      '--base-url',
    ])
  })

  it('selects a profile by a flag or the environment, including a flag in front of the verb', async () => {
    const viewer = await api.account({ role: 'viewer' })
    await login('--profile', 'first')
    await hearth.run(['login', '--profile', 'second', '--base-url', api.baseUrl], { stdin: viewer.key })
    const role = async (args: string[], env: NodeJS.ProcessEnv = {}) =>
      (await hearth.json(args, { env })).role

    assert.equal(await role(['whoami']), 'viewer')
    assert.equal(await role(['whoami', '--profile', 'first']), 'admin')
    assert.equal(await role(['--profile', 'first', 'whoami']), 'admin')
    assert.equal(await role(['whoami'], { HEARTH_PROFILE: 'first' }), 'admin')
    const logout = await hearth.run(['logout'])
    assert.match(logout.out, /Removed profile second for .*\. Its key still works/)
    assert.ok(!readFileSync(config(), 'utf8').includes(viewer.key))
    assert.match((await hearth.run(['whoami'])).err, /No platform is running here/)
    const unknown = await hearth.run(['whoami', '--profile', 'second'])
    assert.deepEqual([unknown.code, /no profile second \(known: first\)/.test(unknown.err)], [2, true])
    assert.match(
      (await hearth.run(['logout', '--profile', 'second'])).err,
      /no profile second \(known: first\)/,
    )
  })

  it('stores the operations key after the platform has accepted it', async () => {
    const refused = await login('--operations-key', 'wrong')
    assert.equal(refused.code, 2)
    assert.match(refused.err, /rejects this operations key/)

    await login('--operations-key', OPERATIONS_KEY)
    assert.match((await hearth.run(['overview'])).out, /New work is admitted/)
  })

  it("never sends a profile's key to another URL", async () => {
    await login()
    const { code, err } = await hearth.run(['runs', 'ls', '--base-url', 'http://127.0.0.1:1'])

    assert.equal(code, 2)
    assert.match(err, /http:\/\/127\.0\.0\.1:1 requires an API key: log in/)
  })

  it('opens the console at a URL without a key', async () => {
    await login()

    assert.equal((await hearth.run(['open', '--print'])).out, `${api.baseUrl}/console/\n`)
    assert.deepEqual(await hearth.json(['open']), { url: `${api.baseUrl}/console/` })
  })

  for (const [fault, args, options, pattern, exit] of [
    [
      'a rejected key',
      ['login', '--base-url', 'API'],
      { stdin: 'hk_wrong\n' },
      /rejects this API key \(from this login\)/,
      2,
    ],
    ['a missing key', ['login', '--base-url', 'API'], {}, /API key for .*: no value given/, 2],
    [
      'a key with a space',
      ['login', '--base-url', 'API'],
      { stdin: 'a b\n' },
      /the API key: Expected printable ASCII/,
      2,
    ],
    ['a missing URL', ['login'], { stdin: 'hk_x\n' }, /pass --base-url/, 2],
    ['an invalid URL', ['login', '--base-url', 'foo'], {}, /http:\/\/127\.0\.0\.1:8420/, 2],
    [
      'an unreachable platform',
      ['login', '--base-url', 'http://127.0.0.1:1'],
      { stdin: 'hk_x\n' },
      /Cannot reach http/,
      1,
    ],
    [
      'an invalid profile name',
      ['login', '--profile', '../x', '--base-url', 'API'],
      { stdin: 'hk_x\n' },
      /--profile: a profile name/,
      2,
    ],
    ['a logout before any login', ['logout'], {}, /no profile default \(known: none\)/, 2],
  ] as const) {
    it(`explains how to fix ${fault}`, async () => {
      const ran = await hearth.run(
        args.map((arg) => (arg === 'API' ? api.baseUrl : arg)),
        options,
      )
      assert.equal(ran.code, exit, ran.err)
      assert.match(ran.err, pattern)
      assert.ok(!ran.err.includes('    at '), ran.err)
    })
  }

  it('names a file that is not a configuration, and leaves it unchanged', async () => {
    await login()
    chmodSync(config(), 0o644)
    const open = await hearth.run(['doctor'])
    writeFileSync(config(), '{"profiles": 5}')
    const { code, err } = await hearth.run(['whoami'])

    assert.match(open.out, /WRONG +Profiles: other users can read .*To do: chmod 600/)
    assert.equal(code, 2)
    assert.match(err, /config\.json is not a profiles file; move it away/)
  })
})
