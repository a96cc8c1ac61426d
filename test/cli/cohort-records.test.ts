import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { follow } from '../../cli/cohorts/follow.ts'
import { PlatformClient } from '../../cli/platform-client.ts'
import { newId } from '../../domain/ids.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { until } from '../support/servers/nodes/node.ts'
import { startTcpProxy } from '../support/servers/tcp-proxy.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/worlds/inference-world.ts'

describe('hearth cohorts list, events, cancel and --resume', () => {
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  async function cohorts(args: string[], graph: object = {}) {
    const { key, accountId } = world
    const env = { ...BARE_ENV, HEARTH_BASE_URL: world.api.baseUrl, HEARTH_DATA_DIR: '/nowhere' }
    const child = spawn(process.execPath, ['cli/hearth.ts', 'cohorts', ...args], {
      env: { ...env, HEARTH_API_KEY: key, HEARTH_ACCOUNT_ID: accountId },
    })
    // The byte order mark that some editors write at the start of a file.
    child.stdin.end(`\uFEFF${JSON.stringify(graph)}`)
    const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? 1)))
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return { code, out, err }
  }
  const client = (baseUrl = world.api.baseUrl) =>
    new PlatformClient(baseUrl, {
      prefix: '',
      headers: { 'x-api-key': world.key, 'x-account-id': world.accountId, 'x-user-id': 'ann' },
      credential: 'this key',
    })
  const accepted = (plan: object) =>
    client().call<AnyBody>('POST', '/api/v1/cohorts:run', { plan, input: {} })
  const alone = (endpoint_id: string, input: object) => ({
    stages: [{ stage_id: 'only', endpoint_id, input }],
    edges: [],
  })

  it('repeat in plain output the reason why a cohort is waiting, and cancel the cohort', async () => {
    await using _control = await world.control()
    const { id } = await world.endpoint({ name: 'patient' })
    const node = await world.node()
    const { task_id } = await accepted({
      stages: [
        { stage_id: 'a', endpoint_id: id, input: { instances: ['x'], wait_s: 1 } },
        { stage_id: 'b', endpoint_id: id, placement: { node_ids: [node.nodeId] } },
      ],
      edges: [
        { from: { stage_id: 'a', path: '/predictions/0' }, to: { stage_id: 'b', path: '/instances/0' } },
      ],
    })
    const summary = () => client().call<AnyBody>('GET', `/api/v1/tasks/${task_id}/cohort`)
    await until(async () => (await summary()).stages[0].status === 'running')
    await node[Symbol.asyncDispose]()
    await world.api.database.db.deleteFrom('node_state').execute()
    const lines: string[] = []
    const followed = follow(client(), task_id, { write: (line) => void lines.push(line) }, { againMs: 1_000 })
    const waits = () => lines.filter((line) => line.includes(' waits for a node that can run stage "'))
    await until(async () => waits().length > 1)

    const cancelled = await cohorts(['cancel', task_id])
    const seen = await followed
    const listed = await cohorts(['list', '--limit', '1'])
    const events = await cohorts(['events', task_id])

    assert.equal(seen.status, 'cancelled')
    assert.match(waits()[0]!, /^\d{4}-\S+Z waits for /)
    assert.deepEqual([cancelled.code, cancelled.err], [0, ''])
    assert.match(cancelled.out, /^Cancelled the cohort of task /)
    assert.match(listed.out, new RegExp(`^TASK +STATUS[^]*\\n${task_id} +cancelled `))
    assert.match(
      events.out,
      /cohort\.queued[^]*stage\.called a attempt 1[^]*cohort\.cancel_requested[^]*cohort\.cancelled/,
    )
  })

  it('continue to follow a cohort after a platform outage, and give up when the outage lasts', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'unreached' })
    const begun = await accepted(alone(id, { instances: ['x'], wait_s: 3 }))
    const proxy = await startTcpProxy(Number(new URL(world.api.baseUrl).port))
    const lines: string[] = []
    const screen = { write: (line: string) => void lines.push(line) }
    const far = client(`http://127.0.0.1:${proxy.port}`)
    const followed = follow(far, begun.task_id, screen)
    await until(async () => lines.some((line) => line.includes('stage.called')))
    proxy.cutAt = proxy.bytes + 1

    assert.equal((await followed).status, 'succeeded')
    const remarks = lines.filter((line) => line.includes(' the platform '))
    assert.match(
      remarks.join(''),
      /does not answer; retrying for 60 s\n.* the platform is reachable again\n$/,
    )
    const events = lines.filter((line) => !remarks.includes(line))
    assert.deepEqual(events, [...new Set(events)], 'each event is printed once')
    assert.match(events.at(-1) ?? '', /cohort\.succeeded/)

    await proxy[Symbol.asyncDispose]()
    const began = Date.now()
    await assert.rejects(follow(far, begun.task_id, screen, { patienceMs: 900 }), /Cannot reach/)
    assert.ok(Date.now() - began >= 900)
  })

  it('print what a resumed run reused, given a task id, or why it reused nothing', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'resumed' })
    const graph = (refuse: object) => ({
      stages: [
        { stage_id: 'first', endpoint_id: id, input: { instances: ['x'] } },
        { stage_id: 'second', endpoint_id: id, input: refuse },
      ],
      edges: [
        {
          from: { stage_id: 'first', path: '/predictions/0' },
          to: { stage_id: 'second', path: '/instances/0' },
        },
      ],
    })
    const { task_id } = await accepted(graph({ refuse: 'no' }))
    await follow(client(), task_id, undefined)

    const key = newId()
    const resumed = await cohorts(['run', '-', '--resume', task_id, '--idempotency-key', key], graph({}))
    const again = await cohorts(['run', '-', '--resume', task_id, '--idempotency-key', key], graph({}))
    const other = await cohorts(
      ['run', '-', '--resume', task_id, '--input', '{"more": 1}', '--watch'],
      graph({}),
    )

    assert.deepEqual([resumed.code, resumed.err], [0, 'Taken over: first.\n'])
    assert.equal(again.out, resumed.out)
    assert.equal(other.code, 0, other.err)
    assert.match(other.err, /^Nothing could be taken over: its input was different\.\n/)
  })

  it('omit the load of a loaded model, and number events in order', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'warm' })
    const tell = async () => {
      const { task_id } = await accepted(alone(id, { instances: ['x'] }))
      await follow(client(), task_id, undefined)
      const { events } = await client().call<AnyBody>('GET', `/api/v1/tasks/${task_id}/cohort/events`)
      const times = events.map(({ created_at }: AnyBody) => created_at)
      assert.deepEqual(times, times.toSorted())
      return events.map(({ type }: AnyBody) => type)
    }
    const [cold, warm] = [await tell(), await tell()]
    assert.ok(cold.includes('stage.loading'), cold.join())
    assert.ok(!warm.includes('stage.loading') && warm.includes('stage.started'), warm.join())
  })
})
