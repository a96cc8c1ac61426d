import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHAT_PATH } from '../../../domain/chat/chat.ts'
import { chooseEngine, type ProfileNeeds } from '../../../node-runtime/models/engines.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { ChatApi } from '../../support/servers/chat-api.ts'
import { addModel, type TestNode } from '../../support/servers/nodes/node.ts'
import { engineOf, LLAMA, OWN, VLLM, vllmFacts, VllmNodes } from '../../support/servers/nodes/vllm-nodes.ts'

const OWN_LLM = 'llm-transformers'

/** Returns the environments and images of a machine without a network, which records what it is asked to install. */
function machineWith(installed: string[], installing: string[]): ProfileNeeds {
  const has = async (name: string) => installed.includes(name)
  const begin = async (name: string) => {
    installing.push(name)
    throw new Error('no network')
  }
  return {
    hasPython: has,
    pythonOf: begin,
    hasPackages: has,
    packagesOf: begin,
    hasImage: () => has('image'),
    imageOf: () => begin('image'),
  }
}

describe('the choice among engines', () => {
  const folder = temporaryFolder()
  before(() => writeFileSync(join(folder.path, 'config.json'), JSON.stringify(LLAMA)))
  after(() => folder[Symbol.dispose]())
  const profileOf = (id: string): RuntimeProfile => {
    const profile = loadCatalog().profile(id)
    assert.ok(profile)
    return profile
  }

  const PROCESS = 'llm-vllm-process'
  const CONTAINER = 'llm-vllm'
  const CASES: [what: string, engines: string[], installed: string[], chosen: string, begun: string[]][] = [
    ['both environments are installed', [PROCESS], ['vllm', 'llm'], PROCESS, []],
    ['neither is installed', [PROCESS], [], PROCESS, []],
    ["only the own server's is installed, and vLLM's is begun", [PROCESS], ['llm'], OWN_LLM, ['vllm']],
    ['its image is here', [CONTAINER], ['image', 'llm'], CONTAINER, []],
    ['its image is missing, whose pull is begun', [CONTAINER], ['llm'], OWN_LLM, ['image']],
    ['only its image is here', [PROCESS, CONTAINER], ['image'], CONTAINER, ['vllm']],
    ['nothing better is here, and only the best is begun', [PROCESS, CONTAINER], ['llm'], OWN_LLM, ['vllm']],
  ]
  for (const [what, better, installed, chosen, begun] of CASES) {
    it(`is ${chosen} when ${what}`, async () => {
      const engines = [...better, OWN_LLM].map(profileOf)
      const installing: string[] = []
      const profile = await chooseEngine(engines, folder.path, {
        isAvoided: () => false,
        onUnsuited: () => {},
        ...machineWith(installed, installing),
      })

      assert.equal(profile.profile_id, chosen)
      assert.deepEqual(installing, begun)
    })
  }

  const CUDA = 'llm-llamacpp-cuda'
  const GGUF_CASES: [what: string, installed: string[], chosen: string, begun: string[]][] = [
    ['its libraries and packages are installed', ['cuda', 'llamacpp-cuda', 'llamacpp'], CUDA, []],
    ['nothing is installed', [], CUDA, []],
    ['its packages are missing', ['cuda', 'llamacpp'], 'llm-llamacpp', ['cuda', 'llamacpp-cuda']],
    ['its libraries are missing', ['llamacpp-cuda', 'llamacpp'], 'llm-llamacpp', ['cuda', 'llamacpp-cuda']],
  ]
  for (const [what, installed, chosen, begun] of GGUF_CASES) {
    it(`is ${chosen} for a GGUF on a GPU node when ${what}`, async () => {
      const installing: string[] = []
      const profile = await chooseEngine([profileOf(CUDA), profileOf('llm-llamacpp')], folder.path, {
        isAvoided: () => false,
        onUnsuited: () => {},
        ...machineWith(installed, installing),
      })

      assert.deepEqual([profile.profile_id, installing], [chosen, begun])
    })
  }
})

describe('the engine of a model', function () {
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

  const startWith = (gpus: number[]) => nodes.start(api, gpus)
  const argumentsOf = async (node: TestNode, key: string) => (await vllmFacts(node, key)).argv

  it("is vLLM on a node with a GPU, and Hearth's own server on a node without one", async () => {
    const key = await addModel(api, { name: 'both' }, { config: LLAMA })
    await using gpu = await startWith([24_000])
    await using cpu = await startWith([])

    await gpu.parts.models.load(key)
    await cpu.parts.models.load(key)

    assert.deepEqual([engineOf(gpu, key), engineOf(cpu, key)], [VLLM, OWN])
  })

  it('serves one endpoint on both nodes', async () => {
    await using gpu = await startWith([24_000])
    await using cpu = await startWith([])
    const chats = new ChatApi(api, gpu, await api.account())
    const endpoint = await chats.warm({}, [gpu, cpu], { name: 'mixed', echo: true, config: LLAMA })
    const ask = async () => {
      const body = { model: endpoint.name, messages: [{ role: 'user', content: 'Hi' }] }
      const answer = await api.call('POST', CHAT_PATH, { key: chats.caller.key, body })
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
      assert.equal(answer.body.model, endpoint.name)
      return String(answer.body.choices[0].message.content)
    }

    const answers = await Promise.all(Array.from({ length: 8 }, ask))

    const fromVllm = answers.filter((text) => text === 'from vLLM').length
    assert.ok(fromVllm > 0 && fromVllm < answers.length, `${fromVllm} of ${answers.length} from vLLM`)
  })

  it('claims a share for the weights and a KV cache, so that several small models fit on one GPU', async () => {
    await using node = await startWith([24_000])
    const keys = [
      await addModel(api, { name: 'one' }, { config: LLAMA }),
      await addModel(api, { name: 'two' }, { config: LLAMA }),
    ]

    for (const key of keys) await node.parts.models.load(key)

    for (const key of keys) {
      const argv = await argumentsOf(node, key)
      const valueOf = (flag: string) => argv[argv.indexOf(flag) + 1]
      assert.equal(valueOf('--gpu-memory-utilization'), '0.341')
      assert.equal(valueOf('--max-model-len'), 'auto')
    }
    assert.deepEqual(
      keys.map((key) => engineOf(node, key)),
      [VLLM, VLLM],
    )
  })

  it("is Hearth's own server for an architecture that vLLM does not implement, and for a GPU that is too small", async () => {
    const unknown = { model_type: 'new', architectures: ['NewForCausalLM'] }
    const strange = await addModel(api, { name: 'strange' }, { config: unknown })
    const small = await addModel(api, { name: 'small' }, { config: LLAMA })
    await using node = await startWith([24_000])
    await using old = await startWith([2_000])

    await node.parts.models.load(strange)
    await old.parts.models.load(small)

    assert.deepEqual([engineOf(node, strange), engineOf(old, small)], [OWN, OWN])
  })

  it('gets a smaller KV cache if the GPU has little free memory, and is the own server until the next load if that is not enough', async () => {
    const key = await addModel(api, { name: 'tight' }, { config: LLAMA })
    await using node = await startWith([24_000])
    const { models, memory } = node.parts
    const loadWith = async (otherMb: number) => {
      memory.reserve('other work', otherMb, [0])
      await models.load(key)
      const engine = engineOf(node, key)
      const argv = engine === VLLM ? await argumentsOf(node, key) : []
      await models.evict(key, false)
      return [engine, argv[argv.indexOf('--gpu-memory-utilization') + 1]]
    }

    assert.deepEqual(await loadWith(20_000), [VLLM, '0.166'])
    assert.deepEqual(await loadWith(22_500), [OWN, undefined])
    assert.deepEqual(await loadWith(10_000), [VLLM, '0.341'])
  })

  it("is Hearth's own server when vLLM fails, and vLLM is not tried again for a while", async () => {
    const key = await addModel(api, { name: 'failing', fails: true }, { config: LLAMA })
    await using node = await startWith([24_000])

    let starts = 0
    node.parts.models.onChange(({ state, warming_up }) => {
      if (state === 'loading_model' && !warming_up) starts += 1
    })

    await node.parts.models.load(key)
    assert.deepEqual([engineOf(node, key), starts], [OWN, 2])
    await node.parts.models.evict(key, false)
    await node.parts.models.load(key)

    assert.deepEqual([engineOf(node, key), starts], [OWN, 3])
  })

  it("becomes Hearth's own server once a stage needs it, after the requests in flight, and does not change back", async () => {
    const key = await addModel(api, { name: 'staged' }, { config: LLAMA })
    await using node = await startWith([24_000])
    const { models } = node.parts
    await models.load(key)
    const use = models.use(key)
    assert.ok(use)

    const loading = models.load(key, { isOwnEngine: true })
    assert.equal(models.use(key), undefined)
    const { statusCode, body } = await use.server.pool.request({ method: 'POST', path: '/x', body: '{}' })
    await body.dump()
    assert.equal(statusCode, 200)
    use[Symbol.dispose]()
    await loading

    assert.equal(engineOf(node, key), OWN)
    await models.evict(key, false)
    await models.load(key)
    assert.equal(engineOf(node, key), OWN)
  })

  it('keeps its compiled kernels for later loads of the same model, until the weights are removed', async () => {
    const [one, two] = [
      await addModel(api, { name: 'one' }, { config: LLAMA }),
      await addModel(api, { name: 'two' }, { config: LLAMA }),
    ]
    await using node = await startWith([24_000])
    const { models, weights } = node.parts
    const load = async (key: string) => {
      await models.load(key)
      const { starts } = await vllmFacts(node, key)
      await models.evict(key, false)
      return starts
    }

    assert.deepEqual([await load(one), await load(one), await load(two)], [1, 2, 1])
    await weights.remove(one)
    assert.equal(await load(one), 1)
  })
})
