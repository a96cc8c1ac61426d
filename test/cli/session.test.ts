import assert from 'node:assert/strict'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'

describe('the session of hearth', () => {
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

  it('is kept by login in a file of its user, without showing the key', async () => {
    const ran = await login()
    const me = await hearth.run(['whoami'])
    const status = await hearth.run(['status'])

    assert.equal(ran.code, 0, ran.err)
    assert.match(ran.out, /as test, with the role admin\. Commands use profile default/)
    assert.equal(statSync(config()).mode & 0o777, 0o600)
    assert.match(me.out, new RegExp(`Account +test \\(${caller.accountId}\\)`))
    assert.match(me.out, /Key .*\(from profile default\)\nOperations key +not known/)
    assert.match(status.out, /is degraded[^]*takes new work[^]*0 tasks and 0 runs open/)
    for (const { out, err } of [ran, me, status]) assert.ok(!(out + err).includes(caller.key))
  })

  it('takes flags before the environment, that before the profile, and that before what runs here', async () => {
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
    const here = 'the platform running here'

    assert.deepEqual(await from([]), [other.accountId, here, here])
    await login()
    assert.deepEqual(await from([]), [caller.accountId, 'profile default', 'profile default'])
    const made = await hearth.json(['keys', 'create', '--name', 'mine'])
    assert.equal(made.account_id, caller.accountId, 'keys are those of the account that whoami reports')
    const mine = await hearth.json(['keys', 'list'])
    assert.ok(mine.every(({ account_id }: { account_id: string }) => account_id === caller.accountId))
    assert.deepEqual(await from([], env), [other.accountId, 'HEARTH_API_KEY', 'HEARTH_BASE_URL'])
    assert.deepEqual(await from(['--api-key', caller.key, '--base-url', api.baseUrl], env), [
      caller.accountId,
      '--api-key',
      '--base-url',
    ])
  })

  it('has profiles, of which one is named by a flag or the environment, also before the verb', async () => {
    const viewer = await api.account({ role: 'viewer' })
    await login('--profile', 'first')
    await hearth.run(['login', '--profile', 'second', '--base-url', api.baseUrl], { stdin: viewer.key })
    const role = async (args: string[], env: NodeJS.ProcessEnv = {}) =>
      (await hearth.json(args, { env })).role

    assert.equal(await role(['whoami']), 'viewer')
    assert.equal(await role(['whoami', '--profile', 'first']), 'admin')
    assert.equal(await role(['--profile', 'first', 'whoami']), 'admin')
    assert.equal(await role(['whoami'], { HEARTH_PROFILE: 'first' }), 'admin')
    const gone = await hearth.run(['logout'])
    assert.match(gone.out, /Profile second .* is forgotten here\. Its key still works/)
    assert.ok(!readFileSync(config(), 'utf8').includes(viewer.key))
    assert.match((await hearth.run(['whoami'])).err, /No platform is running here/)
    const unknown = await hearth.run(['whoami', '--profile', 'second'])
    assert.deepEqual([unknown.code, /no profile second \(known: first\)/.test(unknown.err)], [2, true])
    assert.match(
      (await hearth.run(['logout', '--profile', 'second'])).err,
      /no profile second \(known: first\)/,
    )
  })

  it('keeps the key of operators too, once the platform has taken it', async () => {
    const refused = await login('--operations-key', 'wrong')
    assert.equal(refused.code, 2)
    assert.match(refused.err, /refuses this operations key/)

    await login('--operations-key', OPERATIONS_KEY)
    assert.match((await hearth.run(['overview'])).out, /New work is admitted/)
  })

  it('sends the key of a profile to no other address', async () => {
    await login()
    const { code, err } = await hearth.run(['runs', 'ls', '--base-url', 'http://127.0.0.1:1'])

    assert.equal(code, 2)
    assert.match(err, /An API key is needed for http:\/\/127\.0\.0\.1:1: log in/)
  })

  it('opens the console at an address without a key', async () => {
    await login()

    assert.equal((await hearth.run(['open', '--print'])).out, `${api.baseUrl}/console/\n`)
    assert.deepEqual(await hearth.json(['open']), { url: `${api.baseUrl}/console/` })
  })

  for (const [fault, args, options, said, exit] of [
    [
      'a key that is refused',
      ['login', '--base-url', 'API'],
      { stdin: 'hk_wrong\n' },
      /refuses this API key, which is from this login/,
      2,
    ],
    ['no key', ['login', '--base-url', 'API'], {}, /API key for .*: nothing was given/, 2],
    [
      'a key that is no word',
      ['login', '--base-url', 'API'],
      { stdin: 'a b\n' },
      /the API key: It has to be one word/,
      2,
    ],
    ['no address', ['login'], { stdin: 'hk_x\n' }, /pass --base-url/, 2],
    ['an address that is none', ['login', '--base-url', 'foo'], {}, /http:\/\/127\.0\.0\.1:8420/, 2],
    [
      'a platform that is not there',
      ['login', '--base-url', 'http://127.0.0.1:1'],
      { stdin: 'hk_x\n' },
      /Nothing answers at http/,
      1,
    ],
    [
      'a name that is none',
      ['login', '--profile', '../x', '--base-url', 'API'],
      { stdin: 'hk_x\n' },
      /--profile: the name of a profile/,
      2,
    ],
    ['nothing to forget', ['logout'], {}, /no profile default \(known: none\)/, 2],
  ] as const) {
    it(`says what to do about ${fault}`, async () => {
      const ran = await hearth.run(
        args.map((arg) => (arg === 'API' ? api.baseUrl : arg)),
        options,
      )
      assert.equal(ran.code, exit, ran.err)
      assert.match(ran.err, said)
      assert.ok(!ran.err.includes('    at '), ran.err)
    })
  }

  it('says which file is no configuration, and leaves it alone', async () => {
    await login()
    chmodSync(config(), 0o644)
    const open = await hearth.run(['doctor'])
    writeFileSync(config(), '{"profiles": 5}')
    const { code, err } = await hearth.run(['whoami'])

    assert.match(open.out, /WRONG +Profiles: others can read .*To do: chmod 600/)
    assert.equal(code, 2)
    assert.match(err, /config\.json holds no profiles; move it away/)
  })
})
