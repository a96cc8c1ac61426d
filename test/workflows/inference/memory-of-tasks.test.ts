import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { eventually } from '../../support/assertions/until.ts'
import { buildSnapshots, enableMemory, callAdmin, remember, revoke } from '../../support/builders/memory.ts'
import { type FakeStats, FAKE_LLM_SERVER } from '../../support/servers/chat-api.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

describe('the memory of waiting tasks', () => {
  let world: InferenceWorld
  let control: AsyncDisposable
  let endpoint: EndpointRow
  before(async () => {
    world = await startInferenceWorld({ HEARTH_MEMORY: '1' })
    control = await world.control()
    endpoint = await world.endpoint({ name: 'fake' }, { task_type: 'chat' })
    await enableMemory(world.api, world)
  })
  after(async () => {
    await control?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  const queue = async (input: object = {}): Promise<string> => {
    const body = { input: { messages: [{ role: 'user', content: 'hi' }], ...input }, sync: false }
    return (await world.infer(endpoint, body)).body.task_id
  }
  const ended = (taskId: string) =>
    eventually('the task has ended', async () => {
      const task = await world.task(taskId)
      return ['succeeded', 'failed'].includes(task.status) ? task : undefined
    })
  const audit = async (taskId: string) =>
    (await callAdmin(world.api, 'GET', `/audit/task/${taskId}`)).body.memory
  const sent = async (node: WorldNode): Promise<string> => {
    using use = node.parts.models.use(endpoint.model_key)
    if (!use) throw new Error('the model is not loaded')
    const { body } = await use.server.pool.request({ method: 'GET', path: '/stats' })
    return ((await body.json()) as FakeStats).last
  }
  const addSnapshot = async (text: string): Promise<string> => {
    const id = await remember(world.api, world.key, text)
    await buildSnapshots(world.api)
    return id
  }
  const call = (method: string, path: string) =>
    world.api.call(method, `/api/builder/v1/memory${path}`, { key: world.key })

  it('is the memory at admission, without entries deleted since', async () => {
    await addSnapshot('the kept fact')
    const deleted = await addSnapshot('the deleted fact')
    const taskId = await queue()
    const attached = await audit(taskId)
    await addSnapshot('the later fact')
    await call('DELETE', `/entries/${deleted}`)

    await using node = await world.node({ server: FAKE_LLM_SERVER })
    const task = await ended(taskId)

    const given = await audit(taskId)
    assert.equal(task.status, 'succeeded')
    assert.equal(attached.outcome, 'attached')
    assert.deepEqual([given.outcome, given.snapshot_id], ['given', attached.snapshot_id])
    assert.match(await sent(node), /the kept fact/)
    assert.doesNotMatch(await sent(node), /deleted fact|later fact/)
  })

  it('is left out when the model rejects the request because of it', async () => {
    const taskId = await queue({ fake: { most_messages: 1 } })

    await using node = await world.node({ server: FAKE_LLM_SERVER })
    const task = await ended(taskId)

    assert.equal(task.status, 'succeeded')
    assert.doesNotMatch(await sent(node), /Notes remembered/)
    await eventually('an audit entry with the outcome "refused"', async () =>
      (await audit(taskId)).outcome === 'refused' ? true : undefined,
    )
  })

  it('is stored in no task row and in no history', async () => {
    await addSnapshot('a fact for no row')
    const taskId = await queue()
    await using _node = await world.node({ server: FAKE_LLM_SERVER })
    await ended(taskId)

    const { input } = await world.api.database.db
      .selectFrom('task')
      .select('input')
      .where('id', '=', taskId)
      .executeTakeFirstOrThrow()
    const history = await world.workflow(taskId).fetchHistory()

    assert.doesNotMatch(String(input), /fact/)
    assert.doesNotMatch(JSON.stringify(history), /a fact for no row/)
  })

  it('is in no error, event or history when the model quotes its request', async () => {
    await addSnapshot('the quoted fact')
    const quoting = (status: number) => queue({ fake: { status, echoes: 'body' } })
    const tasks = [await quoting(500), await quoting(422)]
    await using _node = await world.node({ server: FAKE_LLM_SERVER })
    const [broken, refused] = await Promise.all(tasks.map(ended))

    const { db } = world.api.database
    const events = await db.selectFrom('event').selectAll().where('resource_id', 'in', tasks).execute()
    const histories = await Promise.all(tasks.map((id) => world.workflow(id).fetchHistory()))

    assert.match(broken?.error ?? '', /its message is hidden/)
    assert.match(refused?.error ?? '', /"content":"hi"/)
    assert.doesNotMatch(JSON.stringify([broken, refused, events, histories]), /quoted fact|Notes remembered/)
  })

  it('is denied to tasks admitted before their grant was revoked', async () => {
    await addSnapshot('the revoked fact')
    const tasks = await Promise.all(Array.from({ length: 20 }, () => queue()))

    const revoked = await revoke(world.api, world.key, 'read')
    await using node = await world.node({ server: FAKE_LLM_SERVER })
    const ends = await Promise.all(tasks.map(ended))

    assert.equal(revoked.status, 204)
    assert.ok(ends.every(({ status }) => status === 'succeeded'))
    for (const taskId of tasks) assert.equal((await audit(taskId)).outcome, 'denied')
    assert.doesNotMatch(await sent(node), /revoked fact/)
  })
})
