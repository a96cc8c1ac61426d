import assert from 'node:assert/strict'
import { findModelNeeds } from '../../../db/repositories/nodes/loads.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import { enginesOf } from '../../../node-runtime/models/engines.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { Serving } from '../../../schemas/nodes/serving.ts'
import { callAdmin } from '../../support/builders/memory.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { ChatApi } from '../../support/servers/chat-api.ts'
import { addModel, type TestNode, until } from '../../support/servers/nodes/node.ts'
import { engineOf, LLAMA, OWN, VLLM, vllmFacts, VllmNodes } from '../../support/servers/nodes/vllm-nodes.ts'

describe("the settings of a model's endpoint on a node", function () {
  this.timeout(60_000)
  const nodes = new VllmNodes()
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  afterEach(() => nodes.reset())
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    nodes[Symbol.dispose]()
  })

  /** Creates an endpoint, with a function that stores its serving and loads its model again. */
  async function endpointOn(node: TestNode, name: string, config: object = LLAMA) {
    const endpoint = await new ChatApi(api, node, await api.account()).cold({ name, config })
    const { models } = node.parts
    const set = async (serving: Serving | null) => {
      await store(endpoint.id, serving)
      await models.evict(endpoint.model_key, false)
      await models.load(endpoint.model_key)
      return engineOf(node, endpoint.model_key) === VLLM
        ? (await vllmFacts(node, endpoint.model_key)).argv
        : []
    }
    return { endpoint, set }
  }
  const store = (id: string, serving: Serving | null) =>
    api.database.db
      .updateTable('endpoint')
      .set({ serving: serving && JSON.stringify(serving) })
      .where('id', '=', id)
      .execute()
  const last = (argv: string[], flag: string) => argv[argv.lastIndexOf(flag) + 1]

  it('apply from its next load on', async () => {
    await using node = await nodes.start(api, [24_000])
    const { endpoint, set } = await endpointOn(node, 'set')

    const argv = await set({
      max_model_len: 4_096,
      quantization: 'fp8',
      gpu_memory_mb: 12_000,
      engine_args: { 'max-num-seqs': 64, 'enforce-eager': true, 'enable-prefix-caching': false },
    })
    assert.deepEqual([last(argv, '--max-model-len'), last(argv, '--quantization')], ['4096', 'fp8'])
    assert.equal(last(argv, '--gpu-memory-utilization'), '0.5')
    assert.deepEqual(argv.slice(-3), ['--max-num-seqs=64', '--enforce-eager', '--no-enable-prefix-caching'])

    await set({ engine: 'transformers' })
    assert.equal(engineOf(node, endpoint.model_key), OWN)
    await set(null)
    assert.equal(engineOf(node, endpoint.model_key), VLLM)
  })

  it('are those that a gateway sent last while none answers', async () => {
    const gone = await startApi()
    await using _ = gone
    await using node = await nodes.start(gone, [24_000])
    const endpoint = await new ChatApi(gone, node, await gone.account()).cold({ name: 'last', config: LLAMA })
    const { models } = node.parts
    const lengthOf = async () => {
      await models.evict(endpoint.model_key, false)
      await models.load(endpoint.model_key)
      return last((await vllmFacts(node, endpoint.model_key)).argv, '--max-model-len')
    }
    const set = (max_model_len: number) =>
      gone.database.db
        .updateTable('endpoint')
        .set({ serving: JSON.stringify({ max_model_len }) })
        .where('id', '=', endpoint.id)
        .execute()

    // The weights arrive with other settings.
    await set(1_000)
    assert.equal(await lengthOf(), '1000')
    await set(2_000)
    assert.equal(await lengthOf(), '2000')
    await gone[Symbol.asyncDispose]()

    assert.equal(await lengthOf(), '2000')
  })

  it('reach vLLM as the JSON of its speculative config', async () => {
    await using node = await nodes.start(api, [24_000])
    const { set } = await endpointOn(node, 'speculative')

    const speculative = { method: 'ngram', num_speculative_tokens: 4, prompt_lookup_max: 6 } as const
    const argv = await set({ speculative })

    assert.deepEqual(JSON.parse(last(argv, '--speculative-config') ?? ''), speculative)
  })

  it('divide the model among that many GPUs of one node', async () => {
    await using node = await nodes.start(api, [24_000, 24_000, 24_000])
    const { endpoint, set } = await endpointOn(node, 'divided')

    const argv = await set({ tensor_parallel: 2 })

    const { env } = await vllmFacts(node, endpoint.model_key)
    const model = node.parts.models.report().find(({ model_key }) => model_key === endpoint.model_key)
    assert.equal(last(argv, '--tensor-parallel-size'), '2')
    assert.equal(env['CUDA_VISIBLE_DEVICES']?.split(',').length, 2)
    assert.equal(model?.gpus?.length, 2)
    assert.equal(last(argv, '--gpu-memory-utilization'), '0.17')
  })

  it('let a node without a GPU load a version of vLLM if they name its engine', async () => {
    const { db } = api.database
    await using node = await nodes.start(api, [])
    const { endpoint } = await endpointOn(node, 'registered')
    const { model_key } = endpoint
    await db
      .updateTable('model_version')
      .set({ runtime_profile: VLLM })
      .where('model_key', '=', model_key)
      .execute()
    const rejectReason = async () => {
      const needs = await findModelNeeds(db, model_key)
      assert.ok(needs)
      const need = { ...needs, model_key, account_id: endpoint.account_id, now: 0 }
      return api.services.links.placement.rejectReason(node.nodeId, need)
    }

    assert.equal(await rejectReason(), `cannot run the profile ${VLLM}`)
    await store(endpoint.id, { engine: 'transformers' })
    assert.equal(await rejectReason(), undefined)
    await node.parts.models.load(model_key)
    assert.equal(engineOf(node, model_key), OWN)
  })

  it('exclude nodes with fewer GPUs than tensor_parallel from new loads', async () => {
    await using two = await nodes.start(api, [24_000, 24_000])
    await using one = await nodes.start(api, [48_000])
    await using none = await nodes.start(api, [])
    const { endpoint } = await endpointOn(two, 'placed')
    await store(endpoint.id, { tensor_parallel: 2 })
    const version = await api.database.db
      .selectFrom('model_version')
      .select(['model_key', 'runtime_profile', 'memory_mb', 'tensor_parallel'])
      .where('model_key', '=', endpoint.model_key)
      .executeTakeFirstOrThrow()
    const index = new PlacementIndex()
    // The fake GPUs have no CUDA.
    for (const { gpu_fault: _, ...snapshot } of api.services.links.snapshot()) index.put(snapshot)
    const reasons = (tensor_parallel: number | null) =>
      [two, one, none].map(({ nodeId }) =>
        index.rejectReason(nodeId, { ...version, tensor_parallel, account_id: null, now: Date.now() }),
      )

    assert.equal(version.tensor_parallel, 2)
    assert.deepEqual(reasons(2), [
      undefined,
      'has one GPU, but tensor_parallel is 2',
      'has no GPUs, but tensor_parallel is 2',
    ])
    assert.equal(reasons(4)[0], 'has two GPUs, but tensor_parallel is 4')
    assert.deepEqual(reasons(null), [undefined, undefined, undefined])
  })

  it('show the owner and operators which engine failed, until it serves the model', async () => {
    await using node = await nodes.start(api, [24_000])
    const caller = await api.account()
    const chats = new ChatApi(api, node, caller)
    const endpoint = await chats.cold({ name: 'failing', fails: true, config: LLAMA })
    const read = async (key = caller.key) =>
      (await api.call('GET', `/api/builder/v1/endpoints/${endpoint.id}`, { key })).body
    await node.parts.models.load(endpoint.model_key)
    await until(async () => (await read()).engine_faults.length > 0)

    const [{ error, retry_at, ...fault }] = (await read()).engine_faults
    assert.deepEqual(fault, { runtime_profile: VLLM, served_by: OWN })
    assert.match(error, /CUDA out of memory/)
    assert.ok(Date.parse(retry_at) > Date.now() + 3_000_000)
    const explained = async () => {
      const { body } = await callAdmin(api, 'GET', `/placements?model=${endpoint.model_key}`)
      return body.nodes?.find(({ node_id }: { node_id: string }) => node_id === node.nodeId)?.engine_fault
    }
    await until(async () => (await explained()) !== undefined)
    assert.equal((await explained()).runtime_profile, VLLM)

    await store(endpoint.id, { engine: 'transformers' })
    await node.parts.models.evict(endpoint.model_key, false)
    await node.parts.models.load(endpoint.model_key)
    await until(async () => (await read()).engine_faults.length === 0)
  })

  it('keep vLLM away from a model whose attention heads they cannot divide, and say so', async () => {
    await using node = await nodes.start(api, [24_000, 24_000])
    const { endpoint, set } = await endpointOn(node, 'odd', { ...LLAMA, num_attention_heads: 9 })

    await set({ tensor_parallel: 2 })

    const model = node.parts.models.report().find(({ model_key }) => model_key === endpoint.model_key)
    assert.equal(model?.runtime_profile, OWN)
    assert.deepEqual(model?.engine_fault, {
      runtime_profile: VLLM,
      error: 'the 9 attention heads of the model cannot be divided among 2 GPUs (tensor_parallel)',
    })
    await set({ tensor_parallel: 1 })
    assert.equal(engineOf(node, endpoint.model_key), VLLM)
  })

  it('choose the engine even for a version that names vLLM', async () => {
    const catalog = loadCatalog()
    const key = await addModel(api, { name: 'named' }, { config: LLAMA })
    const spec = { model_key: key, runtime_profile: 'llm-vllm', files: [], warmup_input: null, memory_mb: 1 }
    const engines = (serving?: Serving) =>
      enginesOf(
        { ...spec, ...(serving && { serving }) },
        { catalog, runnable: ['llm-vllm', 'llm-vllm-process', 'llm-transformers'], fits: () => true },
      ).map(({ profile_id, tensor_parallel }) => [profile_id, tensor_parallel])

    assert.deepEqual(engines({ engine: 'transformers' }), [['llm-transformers', undefined]])
    assert.deepEqual(engines({ tensor_parallel: 2 }), [
      ['llm-vllm-process', 2],
      ['llm-vllm', 2],
    ])
    assert.deepEqual(engines(), [
      ['llm-vllm-process', undefined],
      ['llm-vllm', undefined],
    ])
  })
})
