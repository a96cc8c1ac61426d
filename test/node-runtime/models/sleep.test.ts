import assert from 'node:assert/strict'
import { LinkError } from '../../../api/gateway/links/link-request.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { loadPromised } from '../../support/builders/cohorts/promised-loads.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { ChatApi, FAKE_LLM_SERVER, startChatNode } from '../../support/servers/chat-api.ts'
import { ASLEEP_MB, FakeGpu } from '../../support/servers/nodes/fake-gpu.ts'
import { addModel, type TestNode, type TestNodeOptions, until } from '../../support/servers/nodes/node.ts'
import { LLAMA, OWN, vllmProfile } from '../../support/servers/nodes/vllm-nodes.ts'

/** One model fits on the GPU, next to a sleeping one. */
const GPU_MB = 10_000

type Weights = Omit<Parameters<typeof addModel>[1], 'name'>

describe('a sleeping model', function () {
  this.timeout(60_000)
  let api: TestApi
  let gpu: FakeGpu
  before(async () => {
    api = await startApi()
  })
  beforeEach(() => {
    gpu = new FakeGpu(GPU_MB)
  })
  afterEach(() => gpu[Symbol.dispose]())
  after(() => api?.[Symbol.asyncDispose]())

  const startWith = (options: TestNodeOptions = {}, gpuMb = GPU_MB): Promise<TestNode> =>
    startChatNode(api, {
      modelKind: 'llm/safetensors',
      vramMb: 600,
      memoryMb: gpuMb,
      server: FAKE_LLM_SERVER,
      otherProfiles: [vllmProfile()],
      ...options,
    })
  const add = (name: string, weights: Weights = {}) => addModel(api, { name, ...weights }, { config: LLAMA })
  const reportOf = ({ parts }: TestNode, key: string) =>
    parts.models.report().find(({ model_key }) => model_key === key)
  const isAsleep = (node: TestNode, key: string) => reportOf(node, key)?.asleep === true
  const pidOf = ({ parts }: TestNode, key: string) =>
    parts.driver.running.find(({ name }) => name === `model-${key}`)?.pid()
  /** Sends a request to a loaded model; returns its text and how often its server has started and woken. */
  async function ask({ parts }: TestNode, key: string) {
    using use = parts.models.use(key)
    assert.ok(use, 'the model is not loaded')
    const { body } = await use.server.pool.request({ method: 'POST', path: '/x', body: '{}' })
    const answer = (await body.json()) as {
      choices: { message: { content: string } }[]
      starts: number
      wakes: number
    }
    return [answer.choices[0]?.message.content, answer.starts, answer.wakes]
  }
  /** Loads a model, and then another one that needs its memory. */
  async function crowdedOut(node: TestNode, key: string): Promise<string> {
    const other = await add('other')
    await node.parts.models.load(key)
    await node.parts.models.load(other)
    return other
  }

  it('keeps its server while another model uses its GPU memory, and concurrent loads wake it once', async () => {
    const key = await add('swapped', { wake_s: 0.5 })
    await using node = await startWith()
    const { models, memory } = node.parts
    await models.load(key)
    const pid = await pidOf(node, key)
    const awakeMb = memory.heldBy(key)

    const other = await add('other')
    await models.load(other)

    const { state, asleep, memory_mb, ram_mb, runtime_profile } = reportOf(node, key) ?? {}
    assert.deepEqual(
      { state, asleep, memory_mb, ram_mb, runtime_profile },
      {
        state: 'evicted',
        asleep: true,
        memory_mb: ASLEEP_MB,
        ram_mb: 2,
        runtime_profile: 'llm-vllm-process',
      },
    )
    assert.equal(memory.heldBy(key), ASLEEP_MB)
    assert.equal(models.use(key), undefined)
    assert.equal(models.startState(key), 'cached')
    assert.deepEqual(await ask(node, other), ['from vLLM', 1, 0])
    // It gets all the memory that it wants and that the sleeping model left, as on an empty GPU.
    assert.ok(memory.heldBy(other) > 0.9 * awakeMb, `${memory.heldBy(other)} of ${awakeMb} MB`)

    await Promise.all([models.load(key), models.load(key)])

    assert.deepEqual(await ask(node, key), ['from vLLM', 1, 1])
    assert.equal(await pidOf(node, key), pid)
    assert.ok(Math.abs(memory.heldBy(key) - awakeMb) < 50, `${memory.heldBy(key)} instead of ${awakeMb} MB`)
    assert.deepEqual([isAsleep(node, key), isAsleep(node, other)], [false, true])
  })

  it('answers the chat that wakes it', async () => {
    await using node = await startWith()
    const chats = new ChatApi(api, node, await api.account())
    const endpoint = await chats.warm({}, [node], {
      name: 'chatty',
      config: LLAMA,
      // Without CUDA, gateways place only models on the node that need no GPU memory.
      memoryMb: 0,
    })
    const pid = await pidOf(node, endpoint.model_key)
    await node.parts.models.load(await add('other'))
    await until(() => api.services.links.placement.model(node.nodeId, endpoint.model_key)?.asleep === true)
    await using promised = loadPromised(chats)

    const answer = await chats.chat(endpoint.name)

    assert.equal(answer.status, 200, JSON.stringify(answer.body))
    assert.equal(answer.body.choices[0].message.content, 'from vLLM')
    assert.deepEqual(promised.loads, [endpoint.model_key])
    assert.equal(await pidOf(node, endpoint.model_key), pid)
    for (const path of ['/sleep', '/wake_up', '/collective_rpc', '/v1/chat/completions/../../sleep']) {
      const order = { accountId: chats.caller.accountId, modelKey: endpoint.model_key, deadlineMs: 5_000 }
      await assert.rejects(
        api.services.links.ask(node.nodeId, { ...order, path, body: Buffer.from('{}') }),
        (err) => err instanceof LinkError && err.code === 'unsupported',
        path,
      )
    }
  })

  it('takes its adapters with it, and the next load of one wakes it', async () => {
    const base = await add('base')
    const tuned = await addModel(api, { name: 'tuned' }, { config: LLAMA, adapter: { r: 8 } })
    const { db } = api.database
    const versions = db.selectFrom('model_version').select('id')
    const idOf = async (key: string) =>
      (await versions.where('model_key', '=', key).executeTakeFirstOrThrow()).id
    await buildEndpoint(db, (await api.account()).accountId, {
      version_id: await idOf(tuned),
      base_version_id: await idOf(base),
      model_key: tuned,
      runtime_profile: OWN,
      task_type: 'chat',
    })
    await using node = await startWith()
    await crowdedOut(node, tuned)
    assert.deepEqual(
      [base, tuned].map((key) => [reportOf(node, key)?.state, isAsleep(node, key)]),
      [
        ['evicted', true],
        ['evicted', false],
      ],
    )

    await node.parts.models.load(tuned)

    assert.deepEqual(await ask(node, tuned), [`from vLLM with adapter:${tuned}`, 1, 1])
  })

  it('is stopped when its remaining GPU memory is needed too', async () => {
    using _small = new FakeGpu(3_000)
    const key = await add('squeezed')
    await using node = await startWith({}, 3_000)
    const other = await crowdedOut(node, key)
    assert.deepEqual([isAsleep(node, key), await ask(node, other)], [true, ['from vLLM', 1, 0]])

    await node.parts.models.load(key)

    assert.deepEqual(await ask(node, key), ['from vLLM', 1, 1])
    assert.equal(await pidOf(node, other), undefined)
    assert.deepEqual([reportOf(node, other)?.state, isAsleep(node, other)], ['evicted', false])
  })

  it('is stopped instead if no RAM is reserved for sleep, or if it cannot fall asleep', async () => {
    await using none = await startWith({ sleepPct: 0 })
    const [plain, failing] = [await add('plain'), await add('failing', { sleep_fails: true })]
    await crowdedOut(none, plain)
    await using node = await startWith()
    await crowdedOut(node, failing)

    for (const [on, key] of [
      [none, plain],
      [node, failing],
    ] as const) {
      assert.deepEqual([reportOf(on, key)?.state, isAsleep(on, key)], ['evicted', false])
      assert.deepEqual([await pidOf(on, key), on.parts.memory.heldBy(key)], [undefined, 0])
    }
    await node.parts.models.load(failing)
    assert.deepEqual(await ask(node, failing), ['from vLLM', 2, 0])
  })

  it('is loaded again when it cannot be woken', async () => {
    const key = await add('stuck', { wake_fails: 1 })
    await using node = await startWith()
    await crowdedOut(node, key)
    const pid = await pidOf(node, key)

    await node.parts.models.load(key)

    assert.deepEqual(await ask(node, key), ['from vLLM', 2, 0])
    assert.notEqual(await pidOf(node, key), pid)
    assert.equal(reportOf(node, key)?.error, undefined)
  })

  it('is loaded again when the settings of its endpoint have changed', async () => {
    await using node = await startWith()
    const chats = new ChatApi(api, node, await api.account())
    const endpoint = await chats.cold({ name: 'set', config: LLAMA })
    await crowdedOut(node, endpoint.model_key)
    const { db } = api.database
    const serving = JSON.stringify({ max_model_len: 4_096 })
    await db.updateTable('endpoint').set({ serving }).where('id', '=', endpoint.id).execute()

    await node.parts.models.load(endpoint.model_key)

    assert.deepEqual(await ask(node, endpoint.model_key), ['from vLLM', 2, 0])
  })

  it('stays asleep while its GPU is full of models in use', async () => {
    const key = await add('patient')
    await using node = await startWith()
    const { models } = node.parts
    const other = await crowdedOut(node, key)
    {
      using _use = models.use(other)
      await assert.rejects(
        models.load(key),
        (err) => err instanceof ModelUnavailableError && err.code === 'no_capacity',
      )
      assert.equal(isAsleep(node, key), true)
    }

    await models.load(key)

    assert.deepEqual(await ask(node, key), ['from vLLM', 1, 1])
  })

  it('is loaded again on demand after its server was killed', async () => {
    const key = await add('killed')
    await using node = await startWith()
    await crowdedOut(node, key)
    const pid = await pidOf(node, key)
    assert.ok(pid)

    process.kill(pid, 'SIGKILL')
    await until(() => !isAsleep(node, key))
    await until(() => node.parts.memory.heldBy(key) === 0)
    assert.equal(reportOf(node, key)?.error, undefined)

    await node.parts.models.load(key)
    assert.deepEqual(await ask(node, key), ['from vLLM', 2, 0])
  })

  it('is stopped once it has been idle for too long', async () => {
    const key = await add('forgotten')
    await using node = await startWith({ idleUnloadS: 8 })
    const states: (boolean | undefined)[] = []
    node.parts.models.onChange(({ model_key, state, asleep }) => {
      if (model_key === key && state === 'evicted') states.push(asleep)
    })
    await crowdedOut(node, key)

    await until(async () => (await pidOf(node, key)) === undefined, 20_000)

    assert.deepEqual(states, [undefined, true, undefined])
  })

  it('is stopped by an eviction as it falls asleep, by draining, and when its files are removed', async () => {
    const key = await add('ended')
    await using node = await startWith()
    const { models, weights, memory } = node.parts
    const { promise: falling, resolve } = Promise.withResolvers<void>()
    models.onChange(({ model_key, state }) => {
      if (model_key === key && state === 'evicted') resolve()
    })
    const ends: [how: string, end: () => Promise<unknown>][] = [
      ['evicted', () => models.evict(key, false)],
      ['draining', () => models.endSleep()],
      ['removed', () => weights.remove(key).then(() => models.disk.sync())],
    ]
    for (const [how, end] of ends) {
      await models.load(key)
      const other = await add('other')
      const loading = models.load(other)
      await (how === 'evicted' ? falling : loading)
      assert.equal(isAsleep(node, key), how !== 'evicted', how)

      await end()
      await loading

      assert.deepEqual([await pidOf(node, key), memory.heldBy(key)], [undefined, 0], how)
      await models.evict(other, false)
    }
    assert.equal(reportOf(node, key), undefined)
  })
})
