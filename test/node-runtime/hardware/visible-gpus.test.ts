import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkNodes } from '../../../cli/doctor/platform.ts'
import { gpusOfOneProgram } from '../../../domain/placement/gpu-capacity.ts'
import { findGpus } from '../../../node-runtime/hardware/nvidia.ts'
import type { NodeInventory, NodeView } from '../../../schemas/nodes/node.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const UUIDS = [
  'GPU-7f57f032-34ab-a064-c37c-7a4f75601cc5',
  'GPU-8c7c9c30-f12f-20bf-e14e-d3c4c965af32',
  'GPU-8c7d1111-0000-4000-8000-000000000002',
  'GPU-d0000000-0000-4000-8000-000000000003',
]
const INSTANCES = ['MIG-377e0049-554c-540b-93c6-d0976f8426cb', 'MIG-f39aa248-6f1b-5769-b119-8d650bb34b27']
const FOUR = UUIDS.map((uuid, at) => `NVIDIA H${at}, 80000, ${uuid}, Disabled`)
const DIVIDED = [
  `NVIDIA H0, 80000, ${UUIDS[0]}, Enabled`,
  `NVIDIA H1, 80000, ${UUIDS[1]}, [N/A]`,
  `NVIDIA H2, 80000, ${UUIDS[2]}, Enabled`,
]
const DIVIDED_LIST = `GPU 0: NVIDIA H0 (UUID: ${UUIDS[0]})
  MIG 2g.20gb     Device  0: (UUID: ${INSTANCES[0]})
  MIG 1g.10gb     Device  1: (UUID: ${INSTANCES[1]})
GPU 1: NVIDIA H1 (UUID: ${UUIDS[1]})
GPU 2: NVIDIA H2 (UUID: ${UUIDS[2]})`

describe('the GPUs that a node may use', () => {
  const folder = temporaryFolder()
  const { env } = process
  afterEach(() => {
    process.env = env
  })
  after(() => folder[Symbol.dispose]())

  /** Returns the GPUs found when nvidia-smi prints these rows; `old` drivers reject queries that name MIG. */
  async function find(variable: string | undefined, rows = FOUR, { list = '', old = false } = {}) {
    const put = (name: string, text: string) => writeFileSync(join(folder.path, name), `${text}\n`)
    put('mig', rows.join('\n'))
    put('plain', rows.map((row) => row.replace(/, [^,]+$/, '')).join('\n'))
    put('list', list)
    const script = `#!/bin/sh
cd ${folder.path}
case "$1" in
  *mig.mode*) ${old ? 'exit 2' : 'cat mig'} ;;
  --query-gpu*) cat plain ;;
  -L) cat list ;;
esac`
    writeFileSync(join(folder.path, 'nvidia-smi'), script, { mode: 0o755 })
    process.env = { ...env, PATH: `${folder.path}:${env['PATH']}` }
    delete process.env['CUDA_VISIBLE_DEVICES']
    if (variable !== undefined) process.env['CUDA_VISIBLE_DEVICES'] = variable
    const { gpus, restriction } = await findGpus()
    return { devices: gpus.map(({ device }) => device), gpus, restriction }
  }

  it('are all GPUs, by UUID, if the variable is not set', async () => {
    const { devices, restriction } = await find(undefined)

    assert.deepEqual(devices, UUIDS)
    assert.equal(restriction, undefined)
    assert.deepEqual((await find(undefined, FOUR, { old: true })).devices, UUIDS)
  })

  for (const [variable, indexes] of Object.entries({
    '2,3': [2, 3],
    '3, 1': [3, 1],
    '0,0': [0],
    [UUIDS[1]!]: [1],
    'GPU-d': [3],
    [`GPU-7f57,${UUIDS[2]}`]: [0, 2],
  }))
    it(`follow CUDA_VISIBLE_DEVICES=${variable}, in its order`, async () => {
      const { devices, gpus, restriction } = await find(variable)

      assert.deepEqual(
        devices,
        indexes.map((index) => UUIDS[index]),
      )
      assert.deepEqual(
        gpus.map(({ name }) => name),
        indexes.map((index) => `NVIDIA H${index}`),
      )
      const leftOut = [0, 1, 2, 3].filter((index) => !indexes.includes(index))
      assert.deepEqual(restriction, {
        cuda_visible_devices: variable,
        left_out: leftOut.map((index) => `${index} (NVIDIA H${index})`),
        ignored: [],
      })
    })

  it('are an empty list if the variable is empty or -1', async () => {
    for (const variable of ['', ' ', '-1']) {
      const { devices, restriction } = await find(variable)
      assert.deepEqual([devices, restriction?.left_out.length, restriction?.ignored], [[], 4, []], variable)
    }
    assert.deepEqual((await find('1,-1,2')).devices, [UUIDS[1]])
  })

  it('end at the first entry that matches no GPU, or more than one', async () => {
    const ends = {
      '0,4,1': ['4', '1'],
      'GPU-8c7': ['GPU-8c7'],
      '1,H100': ['H100'],
      '0,GPU-e': ['GPU-e'],
      '1,': [''],
    }
    for (const [variable, ignored] of Object.entries(ends))
      assert.deepEqual((await find(variable)).restriction?.ignored, ignored, variable)
    assert.deepEqual((await find('0,4,1')).devices, [UUIDS[0]])
  })

  it('are identified by index if the driver reports no UUIDs', async () => {
    const { devices } = await find(
      '3,1',
      ['A, 1', 'B, 2', 'C, 3', 'D, 4'].map((row) => `${row}, [N/A], [N/A]`),
    )

    assert.deepEqual(devices, ['3', '1'])
  })

  it('are MIG instances instead of a partitioned GPU; a program can use only one of them', async () => {
    const options = { list: DIVIDED_LIST }
    const { gpus, restriction } = await find(undefined, DIVIDED, options)

    assert.deepEqual(gpus, [
      { name: 'NVIDIA H0 MIG 2g.20gb', memory_mb: 19_456, device: INSTANCES[0] },
      { name: 'NVIDIA H0 MIG 1g.10gb', memory_mb: 9_728, device: INSTANCES[1] },
      { name: 'NVIDIA H1', memory_mb: 80_000, device: UUIDS[1] },
    ])
    assert.deepEqual(restriction?.left_out, ['2 (NVIDIA H2, MIG without an instance)'])
    assert.deepEqual([gpusOfOneProgram(gpus), gpusOfOneProgram(gpus.slice(2))], [1, 1])
    assert.deepEqual((await find(INSTANCES[1], DIVIDED, options)).devices, [INSTANCES[1]])
    assert.deepEqual((await find('MIG-37', DIVIDED, options)).devices, [INSTANCES[0]])
    assert.deepEqual((await find('0', DIVIDED, options)).devices, INSTANCES)
    assert.deepEqual((await find('2', DIVIDED, options)).devices, [])
  })

  it('are explained by the doctor, which warns about a variable that CUDA reads only in part', async () => {
    const check = async (variable: string) => {
      const inventory: Partial<NodeInventory> = { gpu_restriction: (await find(variable)).restriction! }
      const node = {
        name: 'n',
        status: 'online',
        last_seen_at: 'now',
        models: [],
        environments: [],
        inventory,
      }
      return checkNodes([node as unknown as NodeView])[0]
    }

    const chosen = await check('2,3')
    assert.equal(chosen?.state, 'ok')
    assert.match(
      chosen?.message ?? '',
      /leaves out GPU 0 \(NVIDIA H0\), 1 \(NVIDIA H1\): its CUDA_VISIBLE_DEVICES is "2,3"/,
    )
    const wrong = await check('0,9')
    assert.equal(wrong?.state, 'warning')
    assert.match(wrong?.message ?? '', /CUDA ignores 9 and/)
  })
})
