import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { trainUnderLease } from '../../../node-runtime/training/training-attempt.ts'
import { until } from '../../support/assertions/until.ts'
import { callAdmin } from '../../support/builders/memory.ts'
import { addLlmVersion, versionRef } from '../../support/builders/models/merges.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { HearthRunner } from '../../support/builders/run-hearth.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { type AnyBody, OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'
import { claimOn, startNode, type TestNode } from '../../support/servers/nodes/node.ts'

/** Adds an `nvidia-smi` that lists one GPU, as on a machine with broken CUDA: there is no device and no library. */
function claimedGpu(): Disposable {
  const folder = temporaryFolder()
  const { PATH } = process.env
  const script = `#!/bin/sh\ncase "$1" in --query-gpu*) printf 'NVIDIA H100, 81559\\n' ;; esac\n`
  writeFileSync(join(folder.path, 'nvidia-smi'), script, { mode: 0o755 })
  process.env.PATH = `${folder.path}:${PATH}`
  return {
    [Symbol.dispose]() {
      process.env.PATH = PATH
      folder[Symbol.dispose]()
    },
  }
}

describe('a node with an unusable GPU', function () {
  this.timeout(300_000)
  let stack: AsyncDisposableStack
  let api: TestApi
  let node: TestNode
  let accountId: string
  let key: string
  let version: string

  before(requireLlm)
  before(async () => {
    stack = new AsyncDisposableStack()
    stack.use(claimedGpu())
    api = stack.use(await startApi())
    ;({ accountId, key } = await api.account())
    node = stack.use(
      await startNode(api, {
        memoryMb: 60_000,
        realCatalog: 'both',
        leaveOut: ['llm-vllm', 'llm-vllm-process'],
        accountId,
      }),
    )
    using folder = temporaryFolder()
    await makeTinyLlm(join(folder.path, 'model'))
    version = await addLlmVersion(api, accountId, { folder: folder.path, model_key: 'tiny-llm' })
  })
  after(() => stack.disposeAsync())

  const seen = async (): Promise<AnyBody> => {
    const { body } = await callAdmin(api, 'GET', '/nodes')
    return body.nodes.find(({ node_id }: AnyBody) => node_id === node.nodeId)
  }

  it("reports at startup that CUDA can't be used inside the confinement", async () => {
    await until(async () => (await seen())?.gpu_fault !== null)

    const { gpu_fault, inventory } = await seen()
    assert.equal(inventory.hardware, 'gpu')
    assert.match(gpu_fault.reason, /^a process cannot load the driver's library: libcuda\.so\.1/)
    const { body } = await callAdmin(api, 'GET', '/overview')
    const found = body.attention.find(({ kind }: AnyBody) => kind === 'gpus_unusable')
    assert.deepEqual([found.severity, found.subjects], ['critical', [node.nodeId]])
    assert.match(found.message, /^Node test-node cannot use its GPUs: .*libcuda/)
    using hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_OPERATIONS_KEY: OPERATIONS_KEY })
    const doctor = await hearth.run(['doctor'])
    assert.match(doctor.out, /test-node.*cannot use its GPUs/)
    assert.match((await hearth.run(['nodes', 'list'])).out, /GPUs unusable/)
  })

  it('does not load a model on its CPU if the model was placed on the GPU', async () => {
    await assert.rejects(node.parts.models.load('tiny-llm'), (err: Error) => {
      assert.match(err.message, /^it was placed on a GPU that it cannot use: \w+/)
      return true
    })

    const reported = () => node.parts.models.report().find(({ model_key }) => model_key === 'tiny-llm')
    // Its memory is free once its processes have exited.
    await until(() => reported()?.memory_mb === 0)
    const model = reported()
    assert.equal(model?.unusable, undefined)
    assert.match(model?.error ?? '', /placed on a GPU/)
  })

  // test/node-runtime/trainers/encoder-training.test.ts covers the encoder trainers without a node.
  it('ends a run with a clear error instead of training on its CPU', async () => {
    const job_id = await createRun(api, key, {
      model_config_id: 'llm-qlora-finetune',
      dataset_id: await readyDataset(api, accountId, { columns: ['instruction', 'output'] }),
      base: versionRef(version),
      hyperparameters: { adapter: 'qlora', optimizer: 'adamw_8bit' },
    })
    const claim = await claimOn(api, node, job_id)
    const lines: string[] = []
    const never = new AbortController().signal

    await assert.rejects(
      trainUnderLease(
        { ...node.parts, stopping: () => never },
        {
          claim,
          report: { log: (line) => void lines.push(line), metric() {} },
          cancelled: never,
          pausing: never,
          leaseS: 60,
          isForGpu: true,
        },
      ),
      { code: 'no_cuda', isRetryable: true },
    )

    const log = lines.join('\n')
    assert.match(
      log,
      /placed on a GPU, but PyTorch cannot use it .*Training did not fall back to the CPU.*npx hearth doctor/,
    )
    assert.doesNotMatch(log, /Training [\d,]+ parameters/)
    assert.deepEqual(node.parts.memory.freeByPool, [60_000])
  })

  it('trains a CPU run on its CPU, without a VRAM reservation', async () => {
    const job_id = await createRun(api, key, {
      model_config_id: 'llm-qlora-finetune',
      dataset_id: await readyDataset(api, accountId, { columns: ['instruction', 'output'] }),
      base: versionRef(version),
      hyperparameters: { adapter: 'lora', optimizer: 'adamw_torch' },
    })
    const claim = await claimOn(api, node, job_id)
    const lines: string[] = []
    const never = new AbortController().signal

    await assert.rejects(
      trainUnderLease(
        { ...node.parts, stopping: () => never },
        {
          claim,
          report: { log: (line) => void lines.push(line), metric() {} },
          cancelled: never,
          pausing: never,
          leaseS: 60,
          isForGpu: false,
        },
      ),
      // The trainer has passed its GPU check and fails on the dataset, which is a table of numbers.
      { code: 'bad_data', isRetryable: false },
    )

    assert.match(lines.join('\n'), /This node cannot use its GPUs.*trains on the CPU/)
    assert.deepEqual(node.parts.memory.freeByPool, [60_000])
  })
})
