import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { listDeletedModels } from '../../../db/repositories/nodes/deleted-models.ts'
import { CHAT_PATH } from '../../../domain/chat/chat.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, type TestNode, until } from '../../support/servers/nodes/node.ts'
import { engineOf, LLAMA, OWN, VLLM, VllmNodes, vllmProfile } from '../../support/servers/nodes/vllm-nodes.ts'

const ADAPTER_MB = 1_000
const ADAPTER_FILES_MB = Buffer.byteLength('{"r":8}{}') / 2 ** 20

describe('a model that is served as an adapter', function () {
  this.timeout(60_000)
  const nodes = new VllmNodes()
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  afterEach(() => nodes.reset())
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    nodes[Symbol.dispose]()
  })

  const versionOf = (modelKey: string) =>
    api.database.db
      .selectFrom('model_version')
      .select('id')
      .where('model_key', '=', modelKey)
      .executeTakeFirstOrThrow()

  const addBase = (weights: { no_lora?: boolean } = {}) =>
    addModel(api, { name: 'base', ...weights }, { config: LLAMA })

  /** Adds a fine-tuned model that is served as an adapter of a base; returns its key and the name of its endpoint. */
  async function addTuned(base: string, adapter: object = { r: 8 }): Promise<{ key: string; name: string }> {
    const key = await addModel(api, { name: 'tuned' }, { config: LLAMA, adapter })
    const endpoint = await buildEndpoint(api.database.db, caller.accountId, {
      version_id: (await versionOf(key)).id,
      base_version_id: (await versionOf(base)).id,
      model_key: key,
      runtime_profile: OWN,
      task_type: 'chat',
    })
    return { key, name: endpoint.name }
  }

  /** Starts a node whose engine needs memory for each adapter, which the driver doesn't report. */
  function startReserving(): Promise<TestNode> {
    const profile = vllmProfile()
    assert.ok(profile.adapters)
    const adapters = { ...profile.adapters, memory_per_weights_mb: (ADAPTER_MB - 0.5) / ADAPTER_FILES_MB }
    return nodes.start(api, [24_000], { otherProfiles: [{ ...profile, adapters }] })
  }

  /** Returns what the engine of a model answers. */
  async function ask({ parts }: TestNode, key: string, body: object = {}) {
    using use = parts.models.use(key)
    assert.ok(use, `${key} is not loaded`)
    const answer = await use.server.pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [], ...body }),
    })
    return (await answer.body.json()) as { asked: { model?: string }; argv: string[]; pid: number }
  }
  const stateOf = ({ parts }: TestNode, key: string) =>
    parts.models.report().find(({ model_key }) => model_key === key)?.state
  const onDisk = async ({ parts }: TestNode) => (await parts.weights.list()).toSorted()

  it('shares the server of its base, and needs only its own few files', async () => {
    const base = await addBase()
    const tuned = await Promise.all([addTuned(base), addTuned(base)])
    await using node = await nodes.start(api, [24_000])

    for (const { key } of tuned) await node.parts.models.load(key)

    const [first, second] = tuned.map(({ key }) => key) as [string, string]
    for (const key of [base, first, second]) assert.equal(engineOf(node, key), VLLM)
    assert.equal((await ask(node, first)).asked.model, `adapter:${first}`)
    assert.equal((await ask(node, second, { model: 'called' })).asked.model, `adapter:${second}`)
    const { argv } = await ask(node, base)
    assert.ok(argv.includes('--enable-lora'))
    assert.deepEqual(await onDisk(node), [base, first, second].toSorted())
    assert.equal(await node.parts.weights.find(first), undefined)
    const held = node.parts.models.report().map(({ model_key, memory_mb }) => [model_key, memory_mb > 0])
    assert.deepEqual(Object.fromEntries(held), { [base]: true, [first]: false, [second]: false })
  })

  it('answers over the API under its own name', async () => {
    const base = await addBase()
    const { key, name } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)
    await until(() => api.services.links.placement.count(key).warm === 1)

    const body = { model: name, messages: [{ role: 'user', content: 'Hi' }] }
    const { status, body: answer } = await api.call('POST', CHAT_PATH, { key: caller.key, body })

    const said = answer.choices?.[0].message.content
    assert.deepEqual(
      [status, answer.model, said],
      [200, name, `from vLLM with adapter:${key}`],
      JSON.stringify(answer),
    )
  })

  it('restarts a base that accepts no adapters, once its requests have ended', async () => {
    const base = await addBase()
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(base)
    assert.ok(!(await ask(node, base)).argv.includes('--enable-lora'))
    const { key } = await addTuned(base)
    const running = node.parts.models.use(base)
    assert.ok(running)

    let isLoaded = false
    const loading = node.parts.models.load(key).then(() => (isLoaded = true))
    await until(() => {
      using use = node.parts.models.use(base)
      return use === undefined
    })
    assert.equal(isLoaded, false)
    running[Symbol.dispose]()
    await loading

    assert.ok((await ask(node, base)).argv.includes('--enable-lora'))
    assert.equal((await ask(node, key)).asked.model, `adapter:${key}`)
  })

  it('is served with its own weights while its base has requests that do not end', async () => {
    const base = await addBase()
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(base)
    const { key } = await addTuned(base)
    using _running = node.parts.models.use(base)

    await node.parts.models.load(key)

    assert.equal((await ask(node, key)).asked.model, undefined)
    assert.ok(!(await ask(node, base)).argv.includes('--enable-lora'))
    await node.parts.models.load(base)
    await node.parts.models.load((await addTuned(base)).key)
    assert.ok(!(await ask(node, base)).argv.includes('--enable-lora'))
  })

  it('leaves its base on an engine that has no adapters for it', async () => {
    const base = await addBase({ no_lora: true })
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])

    await node.parts.models.load(key)

    assert.deepEqual([engineOf(node, base), engineOf(node, key)], [VLLM, VLLM])
    assert.equal((await ask(node, key)).asked.model, undefined)
  })

  it('keeps the files of its base, even if the base has no endpoint', async () => {
    const { db } = api.database
    const base = await addBase()
    await sql`update model_version set created_at = now() - interval '1 day' where model_key = ${base}`.execute(
      db,
    )
    assert.deepEqual(await listDeletedModels(db, [base]), [base])

    await addTuned(base)

    assert.deepEqual(await listDeletedModels(db, [base]), [])
  })

  it('goes with its base, and is loaded again on demand', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)

    assert.equal(await node.parts.models.evict(base, false), undefined)

    assert.deepEqual([stateOf(node, base), stateOf(node, key)], ['evicted', 'evicted'])
    assert.equal(node.parts.models.use(key), undefined)
    await node.parts.models.load(key)
    assert.equal((await ask(node, key)).asked.model, `adapter:${key}`)
  })

  it('keeps its base loaded while it answers', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)
    using _use = node.parts.models.use(key)

    assert.match((await node.parts.models.evict(base, false)) ?? '', /requests in progress: 1/)
    assert.match((await node.parts.models.evict(key, true)) ?? '', /requests in progress: 1/)
  })

  it('cannot be reached through its base', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)

    for (const model of [`adapter:${key}`, `\\u0061dapter:${key}`]) {
      const body = JSON.stringify({ messages: [{ content: 'adapter:' }] }).replace(
        '{',
        `{"model":"${model}",`,
      )
      using use = node.parts.models.use(base)
      assert.ok(use)
      const answer = await use.server.pool.request({ method: 'POST', path: '/v1/chat/completions', body })
      assert.equal(((await answer.body.json()) as { asked: { model: string } }).asked.model, 'model')
    }
    assert.equal((await ask(node, base, { model: 'model', said: 'adapter:x' })).asked.model, 'model')
  })

  it('can be unloaded alone, which leaves its base to others', async () => {
    const base = await addBase()
    const [first, second] = [await addTuned(base), await addTuned(base)]
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(first.key)
    await node.parts.models.load(second.key)

    await node.parts.models.evict(first.key, false)

    assert.equal(stateOf(node, first.key), 'evicted')
    assert.equal((await ask(node, second.key)).asked.model, `adapter:${second.key}`)
    await node.parts.models.load(first.key)
    assert.equal((await ask(node, first.key)).asked.model, `adapter:${first.key}`)
  })

  it('has memory in the server of its base, which idle adapters and then idle models make free', async () => {
    const base = await addBase()
    const tuned = await Promise.all(Array.from({ length: 4 }, () => addTuned(base)))
    const [a, b, c, d] = tuned.map(({ key }) => key) as [string, string, string, string]
    const other = await addModel(api, { name: 'other' }, { config: { architectures: ['NewForCausalLM'] } })
    await using node = await startReserving()
    const { models, memory } = node.parts
    const states = () => [a, b, c, d, other].map((key) => stateOf(node, key) ?? 'cold')
    await models.load(other)
    await models.load(a)
    const withOne = memory.heldBy(base)
    memory.reserve('other work', memory.freeMb - 1.5 * ADAPTER_MB, [0])

    await models.load(b)
    assert.equal(memory.heldBy(base) - withOne, ADAPTER_MB)
    await models.load(c)
    assert.equal(memory.heldBy(base) - withOne, ADAPTER_MB)
    assert.deepEqual(states(), ['evicted', 'warm', 'warm', 'cold', 'warm'])

    using _b = models.use(b)
    using _c = models.use(c)
    await models.load(d)
    assert.equal(memory.heldBy(base) - withOne, 2 * ADAPTER_MB)
    assert.deepEqual(states(), ['evicted', 'running', 'running', 'warm', 'evicted'])

    using _d = models.use(d)
    await assert.rejects(models.load(a), /needs \d+ MB; at most \d+ MB can be freed on this node/)
    const report = models.report().find(({ model_key }) => model_key === a)
    assert.match(report?.error ?? '', /at most/)
    assert.ok(report?.retry_at)
    assert.equal(memory.heldBy(base) - withOne, 2 * ADAPTER_MB)
  })

  it('keeps its base loaded while it is pinned', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000], { pinned: [key] })
    await until(() => stateOf(node, key) === 'warm')

    assert.equal(await node.parts.models.evict(base, false), 'an adapter of it is pinned to this node')

    const report = node.parts.models.report().find(({ model_key }) => model_key === base)
    assert.equal(report?.pinned, true)
    assert.ok(node.parts.models.inUse().has(base))
  })

  it('is evicted without an error when the server of its base dies, and can be loaded again, as can those on their way', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    const coming = await Promise.all([addTuned(base), addTuned(base), addTuned(base)])
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)
    using use = node.parts.models.use(base)
    const [pid] = (await use?.server.pids()) ?? []
    assert.ok(pid)

    const loads = coming.map((one) => node.parts.models.load(one.key).catch(() => {}))
    process.kill(pid, 'SIGKILL')

    await until(() => stateOf(node, key) === 'evicted')
    const report = node.parts.models.report().find(({ model_key }) => model_key === key)
    assert.equal(report?.error, undefined)
    await Promise.all(loads)
    for (const one of coming) {
      await node.parts.models.load(one.key)
      assert.equal((await ask(node, one.key)).asked.model, `adapter:${one.key}`)
    }
  })

  it('is served with its own weights if the engine refuses the adapter', async () => {
    const base = await addBase()
    const { key } = await addTuned(base, { r: 8, use_dora: true })
    await using node = await nodes.start(api, [24_000])

    await node.parts.models.load(key)

    assert.ok(await node.parts.weights.find(key))
    assert.equal(engineOf(node, key), VLLM)
    assert.equal((await ask(node, key)).asked.model, undefined)
    const fault = node.parts.models.report().find(({ model_key }) => model_key === key)?.engine_fault
    assert.match(fault?.error ?? '', /^as an adapter of its base: .*DoRA/)
  })

  it('is served with its own weights by a node that does not ask for adapters', async () => {
    const base = await addBase()
    const { key } = await addTuned(base)
    await using node = await nodes.start(api, [24_000])
    await node.parts.models.load(key)

    const merged = await node.parts.control.modelSpec(key)
    const adapter = await node.parts.control.modelSpec(key, { adapters: true })

    assert.equal(merged.base_key, undefined)
    assert.ok(merged.files.some(({ path }) => path === 'config.json'))
    assert.equal(adapter.base_key, base)
    assert.deepEqual(
      adapter.files.map(({ path }) => path),
      ['adapter/adapter_config.json', 'adapter/adapter_model.safetensors'],
    )
  })
})
