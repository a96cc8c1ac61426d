import assert from 'node:assert/strict'
import { loadCatalog } from '../../../platform/catalog.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { type EngineRecorder, startEngineRecorder } from '../../support/servers/nodes/engine-recorder.ts'
import { addModel, type TestNode, until } from '../../support/servers/nodes/node.ts'
import { engineOf, LLAMA, OWN, VllmNodes } from '../../support/servers/nodes/vllm-nodes.ts'

const CONTAINER = 'llm-vllm'

describe("the image of a profile's container", function () {
  this.timeout(60_000)
  const nodes = new VllmNodes()
  const profile = loadCatalog().profile(CONTAINER)
  assert.ok(profile?.image)
  const { image } = profile
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  afterEach(() => nodes.reset())
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    nodes[Symbol.dispose]()
  })

  const startWith = ({ socketPath }: EngineRecorder, prepare = 'none') =>
    nodes.start(api, [24_000], { containerSocket: socketPath, otherProfiles: [profile], prepare })
  const stateOf = ({ parts }: TestNode) => parts.environments.report().find(({ name }) => name === image)

  it('is pulled in the background of the first load, which another engine serves meanwhile', async () => {
    await using engine = await startEngineRecorder({ lacks: true })
    await using node = await startWith(engine)
    const { models } = node.parts
    const key = await addModel(api, { name: 'first' }, { config: LLAMA })
    assert.equal(stateOf(node)?.state, 'absent')

    await models.load(key)

    assert.equal(engineOf(node, key), OWN)
    await until(() => engine.pulls === 1)
    engine.progress({ id: 'a', status: 'Downloading', progressDetail: { current: 10, total: 100 } })
    engine.progress({ id: 'b', status: 'Downloading', progressDetail: { current: 100, total: 100 } })
    await until(() => (stateOf(node)?.progress ?? 0) > 0.5)
    assert.deepEqual([stateOf(node)?.state, stateOf(node)?.progress], ['installing', 0.55])

    engine.endPull()
    await until(() => stateOf(node)?.state === 'ready')
    await models.evict(key, false)
    await models.load(key)
    assert.equal(engine.created[0]?.Image, image)
    assert.equal(engine.pulls, 1)
  })

  it('is pulled when the node starts, and a failure is reported', async () => {
    await using engine = await startEngineRecorder({ lacks: true })
    await using node = await startWith(engine, 'all')

    await until(() => engine.pulls === 1)
    engine.endPull('no space left on device')

    await until(() => stateOf(node)?.state === 'failed')
    assert.match(stateOf(node)?.error ?? '', /cannot be pulled: no space left on device/)
  })
})
