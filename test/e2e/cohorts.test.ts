import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import { register, train, uploadTable } from '../../embedded/demo/steps.ts'
import { writeTinyGguf } from '../../embedded/demo/tiny-gguf.ts'
import type { PlanRequest } from '../../schemas/cohorts/plan.ts'
import { eventually } from '../support/assertions/until.ts'
import { makeTinyLlm, requireLlm } from '../support/builders/models/tiny-llm.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'
import { requireLlamaCpp } from '../support/servers/worlds/llm-world.ts'

const ENDED = ['succeeded', 'failed', 'cancelled']
const NODE_MB = '6000'

describe('a cohort on three nodes', function () {
  this.timeout(900_000)
  const folder = temporaryFolder()
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  const nodes = new Map<string, ChildProcess>()
  const models: Record<string, string> = {}
  let own: string

  before(requireLlm)
  before(requireLlamaCpp)
  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: { HEARTH_NODE_MEMORY_MB: NODE_MB } })
    ;[own = ''] = await nodeIds()
    await startNode('second')
    await startNode('third')
    const table = await uploadTable(platform.h, regressionTable(200))
    const { jobId } = await train(platform.h, table.dataset_id, () => {})
    models['classifier'] = (await register(platform.h, jobId)).endpoint_id
    models['draft-a'] = await importChat('draft-a', 'gguf', ['Dear ', 'Ann'])
    models['draft-b'] = await importChat('draft-b', 'folder', ['Dear', ' Bob'])
    models['judge'] = await importChat('judge', 'gguf', ['take ', 'the ', 'first'])
  })
  after(async () => {
    for (const child of nodes.values()) await stop(child, 'SIGTERM')
    await platform?.stop()
    data?.[Symbol.dispose]()
    folder[Symbol.dispose]()
  })

  it('retries only the draft whose node is killed while a panel runs (S1)', async () => {
    const others = [...nodes.keys()]
    const here = { node_ids: [own] }
    const mail = { from: { stage_id: 'input', path: '/mail' } }
    const contentOf = (stage: string) => ({ stage_id: stage, path: '/choices/0/message/content' })
    const plan: PlanRequest = {
      name: 'panel',
      stages: [
        { stage_id: 'classifier', endpoint_id: models['classifier']!, placement: here },
        { stage_id: 'draft-a', ...chat('draft-a'), placement: here },
        { stage_id: 'draft-b', ...chat('draft-b'), placement: { node_ids: others } },
        { stage_id: 'judge', ...chat('judge'), placement: here },
      ],
      edges: [
        {
          from: { stage_id: 'input', path: '/features' },
          to: { stage_id: 'classifier', path: '/instances/0' },
        },
        { ...mail, to: { stage_id: 'draft-a', path: '/messages/0/content' } },
        { ...mail, to: { stage_id: 'draft-b', path: '/messages/0/content' } },
        {
          from: { stage_id: 'classifier', path: '/predictions/0' },
          to: { stage_id: 'judge', path: '/messages/0/content', template: 'Urgency {{value}}.' },
        },
        {
          from: contentOf('draft-a'),
          to: { stage_id: 'judge', path: '/messages/1/content', template: 'First: {{value}}' },
        },
        {
          from: contentOf('draft-b'),
          to: { stage_id: 'judge', path: '/messages/2/content', template: 'Second: {{value}}' },
        },
      ],
      outputs: [
        { name: 'verdict', ...contentOf('judge') },
        { name: 'draft', ...contentOf('draft-b') },
      ],
    }
    const input = { mail: 'Where is my parcel?', features: { age: 40, income: 50_000, region: 'north' } }

    const fired = await accept(plan, input)
    const victim = await eventually('draft B', async () => {
      const { stages } = await summary(fired)
      const stage = stages.find(({ stage_id }: AnyBody) => stage_id === 'draft-b')
      return ['loading', 'waiting', 'running'].includes(stage.status) ? (stage.node_id as string) : undefined
    })
    await stop(nodes.get(victim)!, 'SIGKILL')
    const seen = await end(fired)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt }: AnyBody) => [stage_id, attempt]),
      [
        ['classifier', 1],
        ['draft-a', 1],
        ['draft-b', 2],
        ['judge', 1],
      ],
    )
    const undisturbed = await run(plan, input)
    assert.equal(undisturbed.seen.status, 'succeeded', JSON.stringify(undisturbed.seen))
    const results = await Promise.all([result(undisturbed.taskId), result(fired)])
    assert.deepEqual(results[1], results[0])
    const books = await admin('GET', `/admin/audit/task/${fired}`)
    assert.equal(books.sums.total_micro, 0)
    const { events } = await cohort(`/tasks/${fired}/cohort/events?limit=500`)
    const retried = events.filter(({ type }: AnyBody) => type === 'stage.retried')
    assert.deepEqual(
      retried.map(({ stage_id, node_id }: AnyBody) => [stage_id, node_id]),
      [['draft-b', victim]],
    )
  })

  const chat = (name: string) => ({
    endpoint_id: models[name]!,
    input: {
      messages: ['user', 'user', 'user']
        .slice(0, name === 'judge' ? 3 : 1)
        .map((role) => ({ role, content: '' })),
      max_tokens: 8,
      temperature: 0,
    },
  })

  async function importChat(name: string, form: 'gguf' | 'folder', says: string[]): Promise<string> {
    const path = join(folder.path, form === 'gguf' ? `${name}.gguf` : name)
    if (form === 'gguf') await writeTinyGguf(path, { answer: says, context: 4_096 })
    else await makeTinyLlm(path, { says })
    const client = new AdminClient(platform.ready.base_url, platform.ready.operations_key)
    const imported = await importModel(client, {
      name,
      path,
      task: 'chat',
      accountId: platform.ready.account_id,
    })
    return imported.endpoint_id
  }

  async function call(
    method: 'GET' | 'POST',
    path: string,
    headers: object,
    body?: object,
  ): Promise<AnyBody> {
    const answer = await request(`${platform.ready.base_url}/api/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: body ? JSON.stringify(body) : null,
    })
    const text = await answer.body.text()
    assert.ok(answer.statusCode < 300, `${method} ${path}: ${answer.statusCode} ${text}`)
    return JSON.parse(text)
  }
  const admin = (method: 'GET' | 'POST', path: string, body?: object) =>
    call(method, path, { 'x-api-key': platform.ready.operations_key }, body)
  const cohort = (path: string, body?: object) =>
    call(
      body ? 'POST' : 'GET',
      path,
      {
        'x-api-key': platform.ready.api_key,
        'x-account-id': platform.ready.account_id,
        'x-user-id': 'a-tester',
      },
      body,
    )
  const accept = async (plan: PlanRequest, input: object): Promise<string> =>
    (await cohort('/cohorts:run', { plan, input })).task_id
  const summary = (taskId: string) => cohort(`/tasks/${taskId}/cohort`)
  const end = (taskId: string): Promise<AnyBody> =>
    eventually(
      'the end of the cohort',
      async () => {
        const seen = await summary(taskId)
        return ENDED.includes(seen.status) ? seen : undefined
      },
      180_000,
    )
  const run = async (plan: PlanRequest, input: object) => {
    const taskId = await accept(plan, input)
    return { taskId, seen: await end(taskId) }
  }
  const result = async (taskId: string) => (await platform.api.get<AnyBody>(`/tasks/${taskId}`)).result

  const nodeIds = async (): Promise<string[]> =>
    (await admin('GET', '/admin/nodes')).nodes.map(({ node_id }: AnyBody) => node_id)

  /** Starts another node for the account, as an operator would. */
  async function startNode(name: string): Promise<void> {
    const earlierIds = await nodeIds()
    const { node_token: token } = await admin('POST', '/admin/node-tokens', {
      account_id: platform.ready.account_id,
    })
    const dir = join(data.path, name)
    mkdirSync(dir)
    const child = spawn(process.execPath, [join(import.meta.dirname, '../../workers/node.ts')], {
      stdio: 'ignore',
      env: {
        ...process.env,
        HEARTH_LOG_LEVEL: 'warn',
        HEARTH_GATEWAY_URL: platform.ready.base_url,
        HEARTH_NODE_TOKEN: token,
        HEARTH_NODE_DIR: dir,
        HEARTH_NODE_NAME: name,
        HEARTH_NODE_MEMORY_MB: NODE_MB,
      },
    })
    const id = await eventually('a node', async () =>
      (await nodeIds()).find((one) => !earlierIds.includes(one)),
    )
    nodes.set(id, child)
  }
})

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await once(child, 'exit')
}
