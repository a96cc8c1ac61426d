import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JobClaim } from '../../../../../schemas/nodes/lease.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { addLlmVersion, versionRef } from '../../../../support/builders/models/merges.ts'
import { temporaryFolder } from '../../../../support/builders/temporary-folder.ts'
import { checkpoint, claimJob, createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { commitOf, startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { claimOn, startNode } from '../../../../support/servers/nodes/node.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const REPO = 'acme/base'
const SEVEN_B_BYTES = 14e9

/** A fake `nvidia-smi` with GPUs of these sizes, until disposed. */
function fakeGpus(sizesMb: readonly number[]): Disposable {
  const folder = temporaryFolder()
  const { PATH } = process.env
  const rows = sizesMb.map((mb) => `NVIDIA L4, ${mb}\\n`).join('')
  const script = `#!/bin/sh\ncase "$1" in --query-gpu*) printf '${rows}' ;; esac\n`
  writeFileSync(join(folder.path, 'nvidia-smi'), script, { mode: 0o755 })
  process.env.PATH = `${folder.path}:${PATH}`
  return {
    [Symbol.dispose]() {
      process.env.PATH = PATH
      folder[Symbol.dispose]()
    },
  }
}

describe('claims of language model runs', function () {
  this.timeout(30_000)
  let hub: TestHub
  let api: TestApi
  let node: SignedNode
  let accountId: string
  let key: string
  let dataset_id: string

  before(async () => {
    hub = await startHub()
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    node = await signedNode(api)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId, { columns: ['instruction', 'output'] })
  })

  const tune = (hyperparameters: Record<string, unknown>, body: object = {}) =>
    createRun(api, key, { model_config_id: 'llm-qlora-finetune', dataset_id, hyperparameters, ...body })

  /** Creates a version with the file sizes of a 7B model. */
  async function largeVersion(): Promise<string> {
    const id = await addLlmVersion(api, accountId, { model: {} })
    await api.database.db
      .updateTable('version_file')
      .set({ size_bytes: SEVEN_B_BYTES })
      .where('version_id', '=', id)
      .where('path', '=', 'model/model.safetensors')
      .execute()
    return id
  }

  describe('the memory they reserve', () => {
    it('depends on the size of the base and on the training method', async () => {
      const base = versionRef(await largeVersion())
      const reserved = async (adapter: string) =>
        (await claimJob(node, await tune({ adapter }, { base }))).specification.memory_mb / 1024

      const [lora, none] = [await reserved('lora'), await reserved('none')]

      assert.ok(lora > 14 && lora < 18, `${lora} GB`)
      assert.ok(none > 100 && none < 115, `${none} GB`)
    })

    it('fails a run that fits no node, with the required and the largest available memory', async () => {
      await using small = await startNode(api, { memoryMb: 2_000 })
      const jobId = await tune({ adapter: 'none' }, { base: versionRef(await largeVersion()) })

      const { specification } = await claimOn(api, small, jobId)

      assert.ok(specification.base?.type === 'unavailable')
      assert.match(
        specification.base.message,
        /^The run needs about 1\d{5} MB to train all weights; the largest node that could run it has 2000 MB\.$/,
      )
    })

    it('is too rough an estimate to reject a run on a table', async () => {
      await using small = await startNode(api, { memoryMb: 2_000 })
      const table = await readyDataset(api, accountId)
      await api.database.db
        .updateTable('dataset')
        .set({ total_size_bytes: SEVEN_B_BYTES })
        .where('id', '=', table)
        .execute()

      const { specification } = await claimOn(api, small, await createRun(api, key, { dataset_id: table }))

      assert.ok(specification.memory_mb > 2_000)
      assert.equal(specification.base, null)
    })

    it('is limited to one GPU: a run that would need several fits no node', async () => {
      const base = versionRef(await largeVersion())
      const claimAt = async (gpusMb: number[]) => {
        using _driver = fakeGpus(gpusMb)
        await using large = await startNode(api, { memoryMb: 24_000 })
        return (await claimOn(api, large, await tune({ adapter: 'lora' }, { base }))).specification.base
      }

      const halves = await claimAt([12_000, 12_000])
      assert.ok(halves?.type === 'unavailable')
      assert.match(
        halves.message,
        /^The run needs about 1\d{4} MB on one GPU; the largest node that could run it has 12000 MB\.$/,
      )
      assert.equal((await claimAt([24_000]))?.type, 'version')
    })

    it('includes the batch on a GPU, up to its whole memory, without rejecting the run', async () => {
      const base = versionRef(await largeVersion())
      using _driver = fakeGpus([40_000])
      await using gpu = await startNode(api, { memoryMb: 40_000 })
      const claim = async (micro_batch_size: number) => {
        const hyperparameters = { adapter: 'qlora', micro_batch_size, sequence_len: 2_048 }
        return (await claimOn(api, gpu, await tune(hyperparameters, { base }))).specification
      }

      const [one, four, many] = [await claim(1), await claim(4), await claim(64)]

      assert.ok(four.memory_mb > one.memory_mb + 4_000, `${one.memory_mb}, ${four.memory_mb}`)
      assert.equal(many.memory_mb, 40_000)
      assert.equal(many.base?.type, 'version')
    })

    it('leaves a run to a node with enough memory', async () => {
      await using small = await startNode(api, { memoryMb: 2_000 })
      await using large = await startNode(api, { memoryMb: 40_000 })
      const jobId = await tune({ adapter: 'lora' }, { base: versionRef(await largeVersion()) })

      await assert.rejects(
        claimOn(api, small, jobId),
        /needs about \d+ MB; this node has 2000 MB and another node has more/,
      )
      const { specification, attempt } = await claimOn(api, large, jobId)

      assert.equal(specification.base?.type, 'version')
      assert.equal(attempt, 1)
    })
  })

  describe('a base that the account has not registered', () => {
    const revisionOf = ({ specification: { base } }: JobClaim) =>
      base?.type === 'files' ? base.cache_key?.split('@')[1] : undefined
    const fail = (token: string) =>
      node.post(`/api/v1/leases/${token}:fail`, { code: 'node_fault', message: 'x', retryable: true })

    it('stays at the same commit for every attempt, whatever is pushed later', async () => {
      const repo = llamaRepo(REPO)
      hub.put(repo)
      const jobId = await tune({ base_model: REPO })
      const first = await claimJob(node, jobId)
      await fail(first.lease_token)
      hub.put(llamaRepo(REPO, { files: { ...repo.files, 'README.md': Buffer.from('# changed') } }))

      const second = await claimJob(node, jobId)
      const other = await claimJob(node, await tune({ base_model: REPO, seed: 5 }))

      assert.equal(revisionOf(first), commitOf(repo))
      assert.equal(revisionOf(second), commitOf(repo))
      assert.notEqual(revisionOf(other), commitOf(repo))
    })

    it('stays at the same commit for an identical run that resumes from a checkpoint', async () => {
      const repo = llamaRepo(REPO)
      hub.put(repo)
      const jobId = await tune({ base_model: REPO, seed: 6 })
      const { lease_token } = await claimJob(node, jobId)
      await checkpoint(node, lease_token, 5)
      const cancelled = await api.call('POST', `/api/builder/v1/training/runs/${jobId}/cancel`, { key })
      assert.equal(cancelled.status, 200)
      hub.put(llamaRepo(REPO, { files: { ...repo.files, 'README.md': Buffer.from('# changed') } }))

      const again = await claimJob(node, await tune({ base_model: REPO, seed: 6 }))

      assert.equal(again.checkpoint?.job_id, jobId)
      assert.equal(revisionOf(again), commitOf(repo))
    })
  })
})
