import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadMeter, profileLack, takeInventory } from '../../../node-runtime/hardware/inventory.ts'
import { hasNvidiaDevice } from '../../../node-runtime/hardware/nvidia.ts'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import type { ConfinementMechanisms } from '../../../node-runtime/processes/confinement.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const profiles = [
  { profile_id: 'contained', requires_gpu: false, driver: 'container' as const },
  { profile_id: 'plain', requires_gpu: false, driver: 'process' as const },
  { profile_id: 'large', requires_gpu: true, driver: 'process' as const },
]

/** Writes an `nvidia-smi` that reports two GPUs, and one process that uses 700 MB on them. */
function fakeDriver(folder: string, pid: number): void {
  const script = `#!/bin/sh
case "$1" in
  --query-gpu*) printf 'NVIDIA H200, 143771\\nNVIDIA H200, 143771\\n' ;;
  *) printf '${pid}, 300\\n${pid}, 400\\n1, 9000\\n' ;;
esac`
  writeFileSync(join(folder, 'nvidia-smi'), script, { mode: 0o755 })
}

const held = async (): Promise<ConfinementMechanisms> => ({
  network: 'landlock',
  files: 'landlock',
  mounts: 'none',
  privileges: 'dropped',
  calls: 'none',
})

describe('the inventory', () => {
  const { PATH } = process.env
  afterEach(() => {
    process.env.PATH = PATH
    delete process.env['CUDA_VISIBLE_DEVICES']
  })

  it("uses the operator's figures on a CPU node, and omits profiles that need a GPU or a container engine", async () => {
    process.env.PATH = ''

    const inventory = await takeInventory({
      profiles,
      hasContainers: false,
      hasCompiler: true,
      held,
      memoryMb: 1234,
      trainSlots: 2,
    })

    assert.equal(inventory.hardware, 'cpu')
    assert.equal(inventory.memory_mb, 1234)
    assert.equal(inventory.train_slots, 2)
    assert.deepEqual(inventory.profiles, ['plain'])
    assert.match(inventory.version, /^0\.\d+\./)
    const { process: own, container } = inventory.isolation ?? {}
    assert.equal(container, undefined)
    const enforced = [own?.memory, own?.network, own?.files, own?.privileges].map((one) => one?.enforced)
    assert.deepEqual(enforced, [true, false, true, true])
    assert.match(own?.network.by ?? '', /^not enforced: /)
  })

  it('uses a share of the available memory by default', async () => {
    const { memory_mb, ram_mb } = await takeInventory({
      profiles,
      hasContainers: false,
      hasCompiler: true,
      held,
      memoryMb: 0,
      trainSlots: 1,
    })

    assert.ok(memory_mb > 0 && memory_mb <= ram_mb / 2)
  })

  it("detects Intel XPUs with their tool, and omits profiles that they can't run", async () => {
    const options = { profiles, hasContainers: false, hasCompiler: true, held, memoryMb: 0, trainSlots: 1 }
    const take = async (answer: string) => {
      using folder = temporaryFolder()
      writeFileSync(
        join(folder.path, 'xpu-smi'),
        `#!/bin/sh\n[ "$*" = 'discovery --dump 2' ] && printf '${answer}'`,
        {
          mode: 0o755,
        },
      )
      process.env.PATH = `${folder.path}:${PATH}`
      return await takeInventory(options)
    }

    const found = await take('Device Name\\n"Intel(R) Data Center GPU Max 1550"\\n')
    assert.deepEqual([found.hardware, found.gpus, found.profiles], ['xpu', [], ['plain']])
    assert.ok(found.memory_mb > 0 && found.memory_mb <= found.ram_mb / 2)
    assert.equal((await take('No device discovered\\n')).hardware, 'cpu')
    assert.equal((await take('Device Name\\n')).hardware, 'cpu')

    const has = { gpus: 1, hasContainers: false, hasCompiler: true }
    const lacks = profiles.map((profile) => profileLack({ ...profile, tensor_parallel: 2 }, has))
    assert.deepEqual(lacks, ['a container engine', undefined, '2 NVIDIA GPUs'])
    const compiling = { ...profiles[1]!, requires_compiler: true }
    assert.equal(profileLack(compiling, { ...has, hasCompiler: false }), 'a C compiler')
    assert.equal(profileLack(compiling, has), undefined)
    const upstream = { ...compiling, requires_compiler: false, requires_program: 'no-such-llama-server' }
    assert.equal(profileLack(upstream, has), 'no-such-llama-server')
    assert.equal(profileLack({ ...upstream, requires_program: 'sh' }, has), undefined)
    assert.equal(
      profileLack(profiles[2]!, { gpus: 0, hasContainers: true, hasCompiler: true }),
      'an NVIDIA GPU',
    )
  })

  it('counts VRAM on a GPU node', async () => {
    using folder = temporaryFolder()
    fakeDriver(folder.path, process.pid)
    process.env.PATH = `${folder.path}:${PATH}`

    const inventory = await takeInventory({
      profiles,
      hasContainers: false,
      hasCompiler: true,
      held,
      memoryMb: 0,
      trainSlots: 1,
    })

    assert.equal(inventory.hardware, 'gpu')
    assert.equal(inventory.memory_mb, 2 * 143_771)
    assert.deepEqual(inventory.profiles, ['plain', 'large'])
  })

  it('explains why a machine with GPUs shows none, and says nothing on a machine without GPUs', async () => {
    const failure = async (script: string) => {
      using folder = temporaryFolder()
      writeFileSync(join(folder.path, 'nvidia-smi'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
      process.env.PATH = `${folder.path}:${PATH}`
      let reason: string | undefined
      const onGpuFailure = (why: string) => (reason = why)
      const options = {
        profiles,
        hasContainers: false,
        hasCompiler: true,
        held,
        memoryMb: 1,
        trainSlots: 1,
        onGpuFailure,
      }
      assert.equal((await takeInventory(options)).hardware, 'cpu')
      return reason
    }
    const mismatch = `echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18`

    assert.match(
      (await failure(mismatch)) ?? '',
      /^nvidia-smi ended with 18 \(Failed to initialize NVML: Driver\/library version mismatch\), so the node .*runs on its CPU/,
    )
    assert.match((await failure('kill -9 $$')) ?? '', /^nvidia-smi ended with SIGKILL, so/)
    // Status 9 means that no driver is loaded.
    assert.equal((await failure('exit 9')) !== undefined, await hasNvidiaDevice())
    assert.equal(await failure('echo No devices were found'), undefined)
    process.env['CUDA_VISIBLE_DEVICES'] = ''
    assert.equal(await failure(mismatch), undefined)
  })

  it('finds an NVIDIA GPU on the bus without a driver', async () => {
    using folder = temporaryFolder()
    const add = (name: string, vendor: string, kind: string) => {
      mkdirSync(join(folder.path, name))
      writeFileSync(join(folder.path, name, 'vendor'), `${vendor}\n`)
      writeFileSync(join(folder.path, name, 'class'), `${kind}\n`)
    }
    add('0000:00:00.0', '0x8086', '0x030000')
    // The audio device of a graphics card.
    add('0000:01:00.1', '0x10de', '0x040300')

    assert.equal(await hasNvidiaDevice(folder.path), false)
    add('0000:02:00.0', '0x10de', '0x030200')
    assert.equal(await hasNvidiaDevice(folder.path), true)
    assert.equal(await hasNvidiaDevice(join(folder.path, 'none')), false)
  })

  it('measures the VRAM that a model uses, and counts none for CPU models', async () => {
    using folder = temporaryFolder()
    fakeDriver(folder.path, process.pid)
    process.env.PATH = `${folder.path}:${PATH}`
    const meter = memoryMeter({ hardware: 'gpu', gpus: [] })
    const plain = loadCatalog().profile('tabular')
    const large = { ...plain!, requires_gpu: true, vram_mb: 800 }
    const spec = { model_key: 'm', runtime_profile: 'p', files: [], warmup_input: null, memory_mb: 100 }

    assert.equal(await meter.measureMb([process.pid], large), 700)
    assert.equal(await meter.measureMb([process.pid], plain!), 0)
    assert.equal(await meter.isBack([process.pid]), false)
    assert.equal(await meter.isBack([1_234_567]), true)
    assert.equal(meter.estimateMb(spec, large), 800)
    assert.equal(meter.estimateMb(spec, plain!), 0)
  })

  it('reports load as a share', () => {
    const load = loadMeter()

    assert.ok(load() >= 0 && load() <= 1)
  })
})
