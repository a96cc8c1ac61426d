import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { follow } from '../../cli/cohorts/follow.ts'
import { PlatformClient } from '../../cli/platform-client.ts'
import { newId } from '../../domain/ids.ts'
import type { PlanRequest } from '../../schemas/cohorts/plan.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/worlds/inference-world.ts'

describe('hearth cohorts', () => {
  let world: InferenceWorld
  let folder: ReturnType<typeof temporaryFolder>
  before(async () => {
    folder = temporaryFolder()
    world = await startInferenceWorld()
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
    folder?.[Symbol.dispose]()
  })

  async function run(args: string[], { env = {}, stdin = '' }: { env?: object; stdin?: string } = {}) {
    const child = spawn(process.execPath, ['cli/hearth.ts', ...args], {
      env: {
        ...BARE_ENV,
        HEARTH_DATA_DIR: folder.path,
        HEARTH_BASE_URL: world.api.baseUrl,
        HEARTH_API_KEY: world.key,
        HEARTH_ACCOUNT_ID: world.accountId,
        ...env,
      },
    })
    child.stdin.end(stdin)
    const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? 1)))
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return { code, out, err }
  }
  const cohorts = (...args: string[]) => run(['cohorts', ...args])
  const file = (content: unknown): string => {
    const path = join(folder.path, `${newId()}.json`)
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
  const chain = (first: string, second = first, more: object = {}): PlanRequest => ({
    name: 'chain',
    stages: [
      { stage_id: 'draft', endpoint_id: first },
      { stage_id: 'judge', endpoint_id: second, ...more },
    ],
    edges: [
      { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'draft', path: '/instances' } },
      {
        from: { stage_id: 'draft', path: '/predictions/0' },
        to: { stage_id: 'judge', path: '/instances/0' },
      },
    ],
  })

  it('plans a graph, prints its events while it runs, and shows it by its task', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'chained' })
    const graph = file(chain(endpoint.name))

    const planned = await cohorts('plan', graph)
    const ran = await cohorts('run', graph, '--input', '{"words": ["one"]}', '--watch')
    const queued = await cohorts(
      'run',
      file({ plan: chain(endpoint.id), input: { words: ['two'] } }),
      '--watch',
      '--json',
    )
    const summary = JSON.parse(queued.out)
    const shown = await cohorts('show', summary.task_id)

    assert.equal(planned.code, 0, planned.err)
    assert.match(planned.out, /^Plan [-0-9a-f]{36}: about \d+ ms/)
    assert.match(planned.out, /judge +test-node /)
    assert.match(planned.out, /Critical path: draft -> judge\./)
    assert.equal(ran.code, 0, ran.err)
    assert.deepEqual(JSON.parse(ran.out), { judge: { predictions: ['one'], weights: 'chained' } })
    assert.match(
      ran.err,
      /cohort\.queued[^]*stage\.called draft attempt 1 on test-node[^]*stage\.succeeded judge[^]*cohort\.succeeded/,
    )
    assert.deepEqual([queued.code, summary.status, summary.user_id], [0, 'succeeded', userInfo().username])
    assert.match(
      shown.out,
      /^Cohort succeeded after [\d.]+ s[^]*draft +succeeded +1[^]*draft-judge-\d+ +json +consumed[^]*"two"/,
    )
  })

  it('reads the graph from standard input and the run input from a file', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'piped' })
    const stdin = JSON.stringify(chain(endpoint.id))

    const planned = await run(['--json', 'cohorts', 'plan', '-'], { stdin })
    const accepted = await run(
      ['--json', 'cohorts', 'run', '-', '--input', file({ words: ['x'] }), '--user', 'ann'],
      { stdin },
    )

    assert.equal(JSON.parse(planned.out).feasible, true, planned.err)
    const { task_id: taskId } = JSON.parse(accepted.out)
    const followed = await cohorts('show', taskId, '--watch', '--json')
    assert.deepEqual(
      [JSON.parse(followed.out).status, JSON.parse(followed.out).user_id],
      ['succeeded', 'ann'],
    )
  })

  it('redraws a table in place in a terminal, as wide as the terminal', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'drawn' })
    const graph = file({
      plan: chain(endpoint.id, endpoint.id, { input: { wait_s: 1 } }),
      input: { words: ['x'] },
    })
    const { task_id: taskId } = JSON.parse((await run(['--json', 'cohorts', 'run', graph])).out)
    const headers = { 'x-api-key': world.key, 'x-account-id': world.accountId, 'x-user-id': 'ann' }
    const client = new PlatformClient(world.api.baseUrl, { prefix: '', headers, credential: 'this key' })
    const written: string[] = []

    await follow(client, taskId, { isTTY: true, columns: 60, write: (drawn) => void written.push(drawn) })

    assert.ok(written.length > 1)
    assert.match(written[0]!, /^Cohort /)
    // oxlint-disable-next-line no-control-regex -- the sequences move the cursor
    for (const drawn of written.slice(1)) assert.match(drawn, /^\u001B\[6A\u001B\[0JCohort /)
    assert.ok(
      written.every((drawn) => drawn.split('\n').every((line) => line.replace(/^.*0J/, '').length < 60)),
    )
    assert.match(written.at(-1)!, /succeeded[^]*draft +succeeded[^]*judge +succeeded/)
  })

  it('exits with 1 and prints the reason when a graph cannot run now or a run fails', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'refusing' })
    const refusing = {
      stages: [{ stage_id: 'only', endpoint_id: endpoint.id, input: { refuse: 'no' } }],
      edges: [],
    }

    const planned = await cohorts('plan', file(chain('nobody')))
    const refused = await cohorts('run', file(chain('nobody')), '--input', '{"words": []}')
    const failed = await cohorts('run', file(refusing), '--watch')

    assert.equal(planned.code, 1)
    assert.match(
      planned.out,
      /cannot run now:\n {2}unknown_endpoint: stage "draft": [^\n]*\n {2}unknown_endpoint: stage "judge": [^\n]*\n$/,
    )
    assert.equal(refused.code, 1)
    assert.match(refused.err, /^hearth: this graph cannot run now: .*\(conflict\)\n$/)
    assert.equal(failed.code, 1)
    assert.match(failed.err, /cohort\.failed[^]*hearth: the cohort failed at stage "only": /)
  })

  const TASK = newId()
  for (const [fault, args, pattern] of [
    ['a missing file', ['plan', '/nowhere.json'], /\/nowhere\.json cannot be read: no such file/],
    ['a folder', ['plan', '/'], /\/ cannot be read: it is a folder/],
    ['a file that is not JSON', ['plan', 'README.md'], /README\.md is not JSON/],
    ['a file without a graph', ['plan', 'package.json'], /package\.json is not a graph: it needs "stages"/],
    ['a file without a run request', ['run', 'package.json'], /package\.json is not a run request/],
    ['an input that is not JSON', ['run', 'package.json', '--input', '{words}'], /--input is not JSON/],
    [
      'an input that is a list',
      ['run', 'package.json', '--input', '[1]'],
      /--input must contain a JSON object/,
    ],
    [
      'an input that is a number',
      ['run', 'package.json', '--input', '5'],
      /--input must contain a JSON object/,
    ],
    [
      'a graph and an input that are both read from standard input',
      ['run', '-', '--input', '-'],
      /only one of the graph and --input can be -/,
    ],
    ['standard input that is not JSON', ['plan', '-'], /standard input is not JSON/],
    ['an invalid id', ['show', 'mine'], /"mine" is not an id/],
    ['an invalid cohort id for --resume', ['run', 'README.md', '--resume', 'x'], /"x" is not an id/],
    [
      'a deadline that is not a number',
      ['run', 'README.md', '--deadline', 'soon'],
      /whole number of seconds from 1/,
    ],
    ['a negative deadline', ['run', 'README.md', '--deadline', '-5'], /seconds from 1 to 86400/],
    ['a deadline of 0', ['run', 'README.md', '--deadline', '0'], /seconds from 1 to 86400/],
    ['an invalid account id', ['--account', 'me', 'show', TASK], /"me" is not an id/],
  ] as const) {
    it(`rejects ${fault} before sending anything`, async () => {
      const { code, err } = await cohorts(...args)
      assert.equal(code, 2, err)
      assert.match(err, pattern)
      assert.ok(!err.includes('    at '), err)
    })
  }

  const NOWHERE = 'http://127.0.0.1:1'
  for (const [fault, env, pattern, exit] of [
    ['a missing key', { HEARTH_API_KEY: '' }, /requires an API key: .*--api-key/, 2],
    [
      "a task without a cohort, in the key's own account",
      { HEARTH_ACCOUNT_ID: '' },
      /no cohort with this task id/,
      1,
    ],
    ['a rejected key', { HEARTH_API_KEY: 'hk_no' }, /rejects this API key/, 2],
    ['an account that does not belong to the key', { HEARTH_ACCOUNT_ID: newId() }, /\(account_mismatch\)/, 2],
    ['a task without a cohort', {}, /no cohort with this task id/, 1],
    ['an unreachable platform', { HEARTH_BASE_URL: NOWHERE }, /npm start/, 1],
    [
      'an unreachable platform, without a key',
      { HEARTH_BASE_URL: NOWHERE, HEARTH_API_KEY: '' },
      /npm start/,
      1,
    ],
  ] as const) {
    it(`explains how to fix ${fault}`, async () => {
      const { code, err } = await run(['cohorts', 'show', TASK], { env })
      assert.equal(code, exit, err)
      assert.match(err, pattern)
    })
  }

  it('names the location of the error in a graph that the platform rejects', async () => {
    const graph = { stages: [{ stage_id: 'Draft', endpoint_id: 'x' }], edges: [] }
    const { code, err } = await cohorts('plan', file(graph))

    assert.equal(code, 2)
    assert.match(err, /body\.stages\.0\.stage_id: .*lower-case letter/)
  })

  it('names every validation error of a graph that the platform rejects', async () => {
    const edge = { from: { stage_id: 'input' }, to: { stage_id: 'a', path: '/x' }, spaces: {} }
    const graph = {
      stages: [{ stage_id: 'a', endpoint_id: 'x', timeout: 5 }],
      edges: [edge],
      constraints: { deadline: 5 },
    }
    const { code, err } = await cohorts('plan', file(graph))

    assert.equal(code, 2)
    for (const field of ['stages.0.timeout', 'edges.0.spaces', 'constraints.deadline'])
      assert.equal(err.split(`body.${field}: Unknown field`).length, 2, err)
  })
})
