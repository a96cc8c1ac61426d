import assert from 'node:assert/strict'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import { enginesOf } from '../../../node-runtime/models/engines.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { Serving } from '../../../schemas/nodes/serving.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { ChatApi } from '../../support/servers/chat-api.ts'
import { addModel, type TestNode } from '../../support/servers/nodes/node.ts'
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
