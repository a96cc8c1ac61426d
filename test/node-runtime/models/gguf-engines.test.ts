import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeTinyGguf } from '../../../embedded/demo/tiny-gguf.ts'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../../../schemas/nodes/serving.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { FAKE_LLM_SERVER } from '../../support/servers/chat-api.ts'
import { addModel, type TestNode } from '../../support/servers/nodes/node.ts'
import { realPython } from '../../support/servers/nodes/python.ts'
import { engineOf, OWN, VllmNodes } from '../../support/servers/nodes/vllm-nodes.ts'

const CUDA = 'llm-llamacpp-cuda'
const MB = 1024 * 1024
const WITH_CUDA = fileURLToPath(new URL('../../../node-runtime/servers/llama/with_cuda.py', import.meta.url))

function profileOf(id: string): RuntimeProfile {
  const profile = loadCatalog().profile(id)
  assert.ok(profile)
  return profile
}

const UPSTREAM = 'llm-llama-server'
const NODES = join(import.meta.dirname, '..', '..', 'support', 'servers', 'nodes')
/** It rejects flags that upstream does not document. */
const FAKE_LLAMA_SERVER = [
  realPython(),
  join(NODES, 'fake_llama_server.py'),
  join(NODES, 'llama-server-cli.json'),
]

describe('the engine of a GGUF', function () {
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

  /** Starts a node with the real profile of llama.cpp on GPUs, but with another command that needs no environment. */
  function start(gpus: number[], command: string[]): Promise<TestNode> {
    const { npm_env: _, ...profile } = profileOf(CUDA)
    const otherProfiles = [{ ...profile, python_env: null, command }]
    return nodes.start(api, gpus, { modelKind: 'llm/gguf', vramMb: 0, otherProfiles })
  }
  /** Starts a node with a fake upstream server, which accepts only the flags of the real one. */
  function startWithUpstream(): Promise<TestNode> {
    const { requires_program: _, command, ...profile } = profileOf(UPSTREAM)
    const otherProfiles = [{ ...profile, command: [...FAKE_LLAMA_SERVER, ...command.slice(1)] }]
    return nodes.start(api, [], { modelKind: 'llm/gguf', memoryMb: 2_000, otherProfiles })
  }

  /** Creates an endpoint for a GGUF whose own context has 131,072 tokens, and returns the key of its model. */
  async function serve(serving: Serving): Promise<string> {
    using folder = temporaryFolder()
    const path = join(folder.path, 'm.gguf')
    await writeTinyGguf(path, { context: 131_072 })
    const model_key = await addModel(api, { name: 'gguf' }, { gguf: readFileSync(path) })
    const { db } = api.database
    const { id: version_id } = await db
      .selectFrom('model_version')
      .select('id')
      .where('model_key', '=', model_key)
      .executeTakeFirstOrThrow()
    const { accountId } = await api.account()
    const columns = { version_id, model_key, runtime_profile: OWN, task_type: 'chat' }
    await buildEndpoint(db, accountId, { ...columns, serving: JSON.stringify(serving) })
    return model_key
  }

  /** Returns the flags that the fake upstream server of a model received. */
  async function flagsOf({ parts }: TestNode, key: string): Promise<Record<string, string>> {
    using use = parts.models.use(key)
    assert.ok(use)
    const { body } = await use.server.pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      body: JSON.stringify({ model: 'model', messages: [] }),
    })
    const { choices } = (await body.json()) as { choices: [{ message: { content: string } }] }
    return (JSON.parse(choices[0].message.content) as { flags: Record<string, string> }).flags
  }

  it('is the upstream server where the endpoint chooses it, with a context within the memory', async () => {
    const [chosen, limited, beyond, automatic] = [
      await serve({ engine: 'llama-server' }),
      await serve({ engine: 'llama-server', max_model_len: 32_768 }),
      await serve({ engine: 'llama-server', max_model_len: 9_000_000 }),
      await serve({}),
    ]
    await using node = await startWithUpstream()
    for (const key of [chosen, limited, beyond, automatic]) await node.parts.models.load(key)

    assert.deepEqual(
      [chosen, limited, beyond, automatic].map((key) => engineOf(node, key)),
      [UPSTREAM, UPSTREAM, UPSTREAM, OWN],
    )
    const { '--ctx-size': size, '--parallel': parallel, '--model': model } = await flagsOf(node, chosen)
    assert.deepEqual([size, parallel, model?.endsWith('/model.gguf')], [String(4 * 131_072), '4', true])
    assert.equal((await flagsOf(node, limited))['--ctx-size'], '32768')
    assert.equal((await flagsOf(node, beyond))['--ctx-size'], '131072')
  })

  it("is Hearth's own server for stages of cohorts and on nodes without the upstream server", async () => {
    const key = await serve({ engine: 'llama-server' })
    await using node = await startWithUpstream()
    await node.parts.models.load(key)
    await node.parts.models.load(key, { isOwnEngine: true })
    assert.equal(engineOf(node, key), OWN)

    await using other = await start([], FAKE_LLM_SERVER.command)
    await other.parts.models.load(key)
    assert.equal(engineOf(other, key), OWN)
  })

  const reportOf = ({ parts }: TestNode, key: string) =>
    parts.models.report().find(({ model_key }) => model_key === key)

  it('computes on a GPU where there is one, and the node reserves memory on it', async () => {
    const key = await addModel(api, { name: 'gguf' })
    await using gpu = await start([24_000], FAKE_LLM_SERVER.command)
    await using cpu = await start([], FAKE_LLM_SERVER.command)

    await gpu.parts.models.load(key)
    await cpu.parts.models.load(key)

    assert.deepEqual([engineOf(gpu, key), engineOf(cpu, key)], [CUDA, OWN])
    assert.deepEqual(reportOf(gpu, key)?.gpus, [0])
    assert.ok((reportOf(gpu, key)?.memory_mb ?? 0) >= 1_024)
  })

  it('computes on the CPU where CUDA fails or the GPU is too small', async () => {
    const failing = [process.execPath, '-e', 'process.exit(1)', '--']
    const key = await addModel(api, { name: 'gguf' })
    await using broken = await start([24_000], failing)
    await using small = await start([1_000], FAKE_LLM_SERVER.command)

    for (const node of [broken, small]) {
      await node.parts.models.load(key)
      assert.equal(engineOf(node, key), OWN)
      assert.equal(reportOf(node, key)?.gpus, undefined)
    }
  })

  it('has VRAM reserved for its weights, and for a context of at most half of the GPU', () => {
    const files = [{ path: 'm.gguf', size_bytes: 8_000 * MB, sha256: '', url: '' }]
    const spec = {
      model_key: 'm',
      runtime_profile: 'llm-llamacpp',
      files,
      warmup_input: null,
      memory_mb: 100,
    }
    const meter = memoryMeter({ hardware: 'gpu', gpus: [{ name: 'one', memory_mb: 24_000 }] })
    const shape = { length: 32_768, bytesPerToken: 127 * 1024 }
    const profile = profileOf(CUDA)
    const least = 1_024 + 8_800

    assert.equal(meter.minMb(spec, profile, shape), least)
    assert.equal(meter.estimateMb(spec, profile, shape), least + 12_000)
    assert.equal(meter.contextMb(spec, profile, least + 5_000, shape), 5_000)
    const serving = { max_model_len: 16_384 }
    assert.equal(meter.minMb({ ...spec, serving }, profile, shape), least + 2_048)
    assert.equal(meter.estimateMb({ ...spec, serving }, profile, shape), least + 8_192)
  })

  it('finds the CUDA libraries of its Python environment', () => {
    using folder = temporaryFolder()
    const env = join(folder.path, 'env')
    const made = spawnSync(realPython(), ['-m', 'venv', '--without-pip', env])
    assert.equal(made.status, 0, String(made.stderr))
    const [version = ''] = readdirSync(join(env, 'lib'))
    const libraries = join(env, 'lib', version, 'site-packages', 'nvidia', 'cu13', 'lib')
    mkdirSync(libraries, { recursive: true })

    const print = [process.execPath, '-p', 'process.env.LD_LIBRARY_PATH']
    const { stdout, stderr } = spawnSync(join(env, 'bin', 'python'), [WITH_CUDA, ...print], {
      encoding: 'utf8',
      env: { LD_LIBRARY_PATH: '/opt/driver' },
    })

    assert.equal(stdout.trim(), `${libraries}:/opt/driver`, stderr)
  })
})
