import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { type Drivers, launch, processCommand } from '../../../node-runtime/models/launch.ts'
import { LoadDeadline } from '../../../node-runtime/models/load-deadline.ts'
import { ModelServer } from '../../../node-runtime/models/server.ts'
import { ContainerDriver } from '../../../node-runtime/processes/container-driver.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { type EngineRecorder, startEngineRecorder } from '../../support/servers/nodes/engine-recorder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'

const MB = 1024 * 1024
const PARSES_TOOLS = ['--enable-auto-tool-choice', '--tool-call-parser']
const HERMES = [...PARSES_TOOLS, 'hermes']
/** The vLLM arguments for a model of each family. */
const OPTIONS: [type: string, options: string[]][] = [
  ['qwen2', HERMES],
  ['qwen3', [...HERMES, '--reasoning-parser', 'qwen3']],
  ['qwen3_moe', [...HERMES, '--reasoning-parser', 'qwen3']],
  ['llama', [...PARSES_TOOLS, 'llama3_json']],
  ['mistral', [...PARSES_TOOLS, 'mistral']],
  ['gpt_oss', [...PARSES_TOOLS, 'openai', '--reasoning-parser', 'openai_gptoss']],
  ['glm4_moe', [...PARSES_TOOLS, 'glm45', '--reasoning-parser', 'glm45']],
  ['a-family-of-tomorrow', []],
]
/** The additional arguments for each chat template. */
const TRACES: [what: string, type: string, template: string, options: string[]][] = [
  [
    'starts the reasoning',
    'qwen2',
    '{{ messages }}{% if add_generation_prompt %}<|assistant|><think>\\n{% endif %}',
    [...HERMES, '--reasoning-parser', 'deepseek_r1'],
  ],
  [
    'leaves the reasoning to the model',
    'new',
    "{{ m.split('</think>') }}<think>{% if add_generation_prompt %}<|a|>{% if off %}<think></think>{% endif %}{% endif %}",
    ['--reasoning-parser', 'qwen3'],
  ],
  [
    'belongs to a family with its own parser',
    'qwen3',
    '{% if add_generation_prompt %}<think>{% endif %}',
    [...HERMES, '--reasoning-parser', 'qwen3'],
  ],
  ['has no reasoning tags', 'qwen2', '{% if add_generation_prompt %}<|assistant|>{% endif %}', HERMES],
]

/** Creates an environment with a fake vLLM. */
function fakeEnvironment(dir: string): string {
  execFileSync(realPython(), ['-m', 'venv', '--without-pip', '--system-site-packages', dir])
  const [version = ''] = readdirSync(join(dir, 'lib'))
  const module = join(dir, 'lib', version, 'site-packages', 'vllm', 'entrypoints', 'cli')
  mkdirSync(module, { recursive: true })
  cpSync(
    join(import.meta.dirname, '..', '..', 'support', 'servers', 'nodes', 'fake_vllm.py'),
    join(module, 'main.py'),
  )
  return join(dir, 'bin', 'python')
}

describe('a language model on vLLM', () => {
  const folder = temporaryFolder()
  const kernels = temporaryFolder()
  let engine: EngineRecorder
  let drivers: Drivers
  before(async () => {
    engine = await startEngineRecorder()
    const { socketPath } = engine
    drivers = {
      process: new ProcessDriver({ stateDir: folder.path, python: async () => 'python3' }),
      container: await ContainerDriver.connect({ socketPath, stateDir: folder.path }),
    }
  })
  after(async () => {
    await drivers?.process.stopAll({ graceMs: 0 })
    await engine?.[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
    kernels[Symbol.dispose]()
  })

  const profileOf = (id: string): RuntimeProfile => {
    const profile = loadCatalog().profile(id)
    assert.ok(profile)
    return profile
  }
  const specOf = (profile: RuntimeProfile, modelType = 'llama') => {
    writeFileSync(join(folder.path, 'config.json'), JSON.stringify({ model_type: modelType }))
    return {
      name: 'model-a',
      profile,
      python: undefined,
      modelDir: folder.path,
      compileDir: kernels.path,
      ramMb: 20_000,
      gpus: ['0'],
    }
  }
  /** Returns the container that the engine is asked to create. */
  async function created(profile: RuntimeProfile, modelType?: string) {
    await assert.rejects(launch(drivers, specOf(profile, modelType)), /noted/)
    const options = engine.created.at(-1)
    assert.ok(options?.HostConfig)
    return { ...options, HostConfig: options.HostConfig }
  }

  it('runs in a version-pinned container with the GPUs, read-only weights, and no network', async () => {
    const { Image, Entrypoint, Env, HostConfig } = await created(profileOf('llm-vllm'))

    assert.match(Image ?? '', /\/vllm-openai:v\d+\.\d+\.\d+$/)
    assert.deepEqual(Entrypoint, ['vllm'])
    assert.deepEqual(HostConfig.DeviceRequests, [
      { Driver: 'nvidia', DeviceIDs: ['0'], Capabilities: [['gpu']] },
    ])
    const [weights, kernels, socket, ...others] = HostConfig.Mounts ?? []
    assert.deepEqual([kernels?.Target, kernels?.ReadOnly], ['/compiled', false])
    assert.ok(Env?.includes('VLLM_CACHE_ROOT=/compiled/vllm'))
    assert.deepEqual(weights, { Type: 'bind', Source: folder.path, Target: '/model', ReadOnly: true })
    assert.deepEqual([socket?.Target, socket?.ReadOnly, others], ['/run/hearth', false, []])
    assert.equal(HostConfig.NetworkMode, 'none')
    assert.equal(HostConfig.ReadonlyRootfs, true)
    const threads = Math.max(1, Math.floor(availableParallelism() / 2))
    assert.ok(Env?.includes(`OMP_NUM_THREADS=${threads}`))
    assert.ok(Env?.includes('HF_HUB_OFFLINE=1'))
  })

  it('gets space to compile and run its kernels, and a RAM limit that does not depend on its VRAM', async () => {
    const { Env, HostConfig } = await created(profileOf('llm-vllm'))

    const options = HostConfig.Tmpfs?.['/tmp']?.split(',') ?? []
    assert.ok(options.includes('exec') && options.includes('size=4096m'), options.join())
    assert.ok(Env?.includes('HOME=/tmp'))
    assert.equal(HostConfig.ShmSize, 2_048 * MB)
    assert.equal(HostConfig.Memory, (20_000 + 4_096 + 2_048) * MB)
    assert.equal(HostConfig.MemorySwap, HostConfig.Memory)
  })

  for (const [type, options] of OPTIONS) {
    it(`receives the tool call options for ${type}${options.length ? '' : ' only when they are known'}`, async () => {
      const { Cmd } = await created(profileOf('llm-vllm'), type)

      const expectedArgs =
        'serve /model --served-model-name model --uds /run/hearth/server.sock ' +
        '--gpu-memory-utilization 0.9 --tensor-parallel-size 1 --allowed-media-domains media.invalid --max-model-len auto --enable-sleep-mode'
      assert.deepEqual(Cmd, [...expectedArgs.split(' '), ...options])
    })
  }

  for (const [what, type, template, options] of TRACES) {
    it(`receives the reasoning options when the template ${what}`, async () => {
      const path = join(folder.path, 'tokenizer_config.json')
      writeFileSync(path, JSON.stringify({ chat_template: template }))
      const { Cmd } = await created(profileOf('llm-vllm'), type)
      rmSync(path)

      assert.deepEqual(Cmd?.slice(Cmd.indexOf('--enable-sleep-mode') + 1), options)
    })
  }

  it('receives the number of its GPUs, and sees only those', async () => {
    const split = { ...profileOf('llm-vllm'), tensor_parallel: 2 }
    await assert.rejects(launch(drivers, { ...specOf(split), gpus: ['1', '3'] }), /noted/)
    const { Cmd, HostConfig } = engine.created.at(-1) ?? {}
    const command = processCommand({ ...specOf({ ...split, driver: 'process' }), gpus: ['1', '3'] })

    assert.equal(Cmd?.[Cmd.indexOf('--tensor-parallel-size') + 1], '2')
    assert.deepEqual(HostConfig?.DeviceRequests?.[0]?.DeviceIDs, ['1', '3'])
    assert.deepEqual(
      [command.env['CUDA_VISIBLE_DEVICES'], command.env['CUDA_DEVICE_ORDER']],
      ['1,3', 'PCI_BUS_ID'],
    )
  })

  it('accepts an image by digest, but not by a mutable name', async () => {
    const image = `registry.test/vllm@sha256:${'0a'.repeat(32)}`

    const { Image } = await created({ ...profileOf('llm-vllm'), image })

    assert.equal(Image, image)
    const floating = { ...profileOf('llm-vllm'), image: 'registry.test/vllm:latest' }
    await assert.rejects(launch(drivers, specOf(floating)), /must be referenced by a version or a digest/)
  })

  it('also runs as a process: warm once its health check answers, with the same options', async function () {
    this.timeout(60_000)
    using environment = temporaryFolder()
    const python = fakeEnvironment(environment.path)
    const profile = profileOf('llm-vllm-process')
    using deadline = new LoadDeadline({ stallMs: 30_000 })
    const stopping = new AbortController().signal
    const startedAt = performance.now()

    const server = await ModelServer.start(
      drivers,
      { ...specOf(profile, 'qwen3'), python },
      { deadline, stopping },
    )

    assert.ok(performance.now() - startedAt >= 1_000)
    assert.ok(await server.isHealthy(5_000))
    await server.probe(profile.warmup_input)
    const { body } = await server.pool.request({ method: 'POST', path: profile.infer_path, body: '{}' })
    const { argv, env } = (await body.json()) as { argv: string[]; env: Record<string, string> }
    const socket = argv[argv.indexOf('--uds') + 1]
    const expectedArgs =
      `-m vllm.entrypoints.cli.main serve ${folder.path} --served-model-name model --uds ${socket} ` +
      '--gpu-memory-utilization 0.9 --tensor-parallel-size 1 --allowed-media-domains media.invalid --max-model-len auto --enable-sleep-mode'
    assert.deepEqual(argv, [...expectedArgs.split(' '), ...HERMES, '--reasoning-parser', 'qwen3'])
    assert.equal(env['HF_HUB_OFFLINE'], '1')
    assert.equal(env['CUDA_VISIBLE_DEVICES'], '0')
    await server.stop()
    assert.equal(drivers.process.running.length, 0)
  })

  it('is started differently as a process than as a container, but is otherwise the same', () => {
    const [contained, plain] = [profileOf('llm-vllm'), profileOf('llm-vllm-process')]
    const started = ['driver', 'python_env', 'image', 'command', 'env', 'temporary_mb', 'shared_mb']
    const descriptionFields = ['profile_id', 'display_name', 'description', 'preference', 'requires_compiler']
    const common = (profile: RuntimeProfile) =>
      Object.entries(profile).filter(([name]) => ![...started, ...descriptionFields].includes(name))

    assert.deepEqual([contained.driver, plain.driver], ['container', 'process'])
    assert.deepEqual(common(plain), common(contained))
  })

  it('reserves GPU memory for its weights and a KV cache, up to its share', () => {
    const files = [{ path: 'w', size_bytes: 10_000 * MB, sha256: '', url: '' }]
    const spec = { model_key: 'm', runtime_profile: 'p', files, warmup_input: null, memory_mb: 100 }
    const reserved = (sizes: number[], tensor_parallel = 1) => {
      const meter = memoryMeter({
        hardware: 'gpu',
        gpus: sizes.map((memory_mb) => ({ name: 'one', memory_mb })),
      })
      const profile = { ...profileOf('llm-vllm'), tensor_parallel }
      return { mb: meter.estimateMb(spec, profile), fits: meter.fits(spec, profile) }
    }
    const least = 2_048 + 11_500

    assert.deepEqual(reserved([80_000]), { mb: least + 6_144 + 3_500, fits: true })
    assert.deepEqual(reserved([16_000]), { mb: 14_400, fits: true })
    assert.deepEqual(reserved([12_000]), { mb: least, fits: false })
    assert.deepEqual(reserved([16_000, 8_000, 12_000], 2), { mb: 21_600, fits: true })
  })

  it('claims the share of its GPUs that was reserved for it', () => {
    const sizes = [80_000, 24_000, 24_000]
    const meter = memoryMeter({
      hardware: 'gpu',
      gpus: sizes.map((memory_mb) => ({ name: 'one', memory_mb })),
    })
    const share = (mb: number, gpus: number[]) => meter.shareOf(mb, gpus, profileOf('llm-vllm'))

    assert.deepEqual([share(20_000, [0]), share(20_000, [1]), share(20_000, [1, 2])], [0.25, 0.833, 0.416])
    assert.equal(share(24_000, [1]), 0.9)
    assert.equal(meter.shareOf(20_000, [0], profileOf('llm-transformers')), undefined)
  })

  it("may use its profile's RAM or, on a CPU, its measured peak if that is higher", () => {
    const [cpu, gpu] = (['cpu', 'gpu'] as const).map((hardware) => memoryMeter({ hardware, gpus: [] }))
    const spec = { model_key: 'm', runtime_profile: 'p', files: [], warmup_input: null, memory_mb: 100 }
    const limits = [300, 9_000].map((held) =>
      [cpu, gpu].map((meter) => meter?.ramLimitMb(spec, profileOf('llm-vllm'), held)),
    )

    assert.deepEqual(limits, [
      [8_192, 8_192],
      [9_000, 8_192],
    ])
  })
})
