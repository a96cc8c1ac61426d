import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import type { ImportedModel } from '../../schemas/model-import.ts'
import type { Model } from '../../schemas/model.ts'
import { eventually } from '../support/assertions/until.ts'
import { colourTriplets, labelledColours } from '../support/builders/cohorts/colours.ts'
import { filesOf, llamaRepo } from '../support/builders/models/hub-repos.ts'
import { requireSpecialist, tinySpecialist } from '../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startHub } from '../support/servers/hub-server.ts'
import { probeSpecialists } from '../support/servers/nodes/specialist.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

const EMBEDDING = {
  model_config_id: 'embedding-finetune',
  hyperparameters: { epochs: 12, learning_rate: 0.003, micro_batch_size: 16, val_set_size: 0.2 },
}
const CLASSIFIER = {
  model_config_id: 'text-classification-finetune',
  hyperparameters: {
    base_model: 'acme/encoder',
    epochs: 20,
    learning_rate: 0.003,
    micro_batch_size: 8,
  },
}
/** Tolerance for floating-point differences between ONNX Runtime and PyTorch on tiny models. */
const CLOSE = 1e-4

interface Run {
  status: string
  error_message: string | null
  version_id: string | null
  metrics: Record<string, number>
}

describe('fine-tuning an encoder, from rows to inference', function () {
  this.timeout(900_000)
  const stack = new AsyncDisposableStack()
  let platform: TestPlatform
  let base: ImportedModel
  let folder: string
  const datasets: Record<string, string> = {}

  before(requireSpecialist)
  before(async () => {
    folder = stack.use(temporaryFolder()).path
    const encoder = await filesOf(await tinySpecialist({ architecture: 'distilbert' }))
    const hub = stack.use(
      await startHub(llamaRepo('acme/encoder', { files: encoder, pipelineTag: 'feature-extraction' })),
    )
    const directory = stack.use(dataDirectory())
    platform = stack.use(await startTestPlatform(directory.path, { env: { HEARTH_HUB_ENDPOINT: hub.url } }))
    const { base_url, operations_key, account_id } = platform.ready
    base = await importModel(new AdminClient(base_url, operations_key), {
      name: 'base-embedder',
      path: await tinySpecialist(),
      task: 'embeddings',
      accountId: account_id,
    })
    const rows = { triplets: colourTriplets(), labelled: labelledColours() }
    for (const [name, all] of Object.entries(rows)) {
      const bytes = Buffer.from(all.map((row) => JSON.stringify(row)).join('\n'))
      const { dataset_id } = await platform.api.upload<{ dataset_id: string }>(
        '/datasets/upload',
        { name: `${name}.jsonl`, bytes },
        { name, storage_format: 'jsonl' },
      )
      datasets[name] = dataset_id
    }
  })
  after(() => stack.disposeAsync())

  const fromBase = () => ({ type: 'model_version', version_id: base.version_id })

  async function start(
    dataset: string,
    body: { hyperparameters: object; base?: object },
    more: object = {},
  ): Promise<string> {
    const { job_id } = await platform.api.post<{ job_id: string }>('/training/runs', {
      job_name: dataset,
      dataset_id: datasets[dataset],
      ...body,
      hyperparameters: { ...body.hyperparameters, ...more },
    })
    return job_id
  }

  async function ended(jobId: string): Promise<Run> {
    for (;;) {
      const run = await platform.api.get<Run>(`/training/runs/${jobId}`)
      if (['completed', 'failed', 'cancelled'].includes(run.status)) return run
      await sleep(200)
    }
  }

  async function completed(jobId: string): Promise<Run> {
    const run = await ended(jobId)
    assert.equal(run.status, 'completed', run.error_message ?? '')
    return run
  }

  const served = (jobId: string, name: string) =>
    platform.api.post(`/training/runs/${jobId}/register-for-inference`, { name })

  async function ask<T>(endpoint: string, text: string | readonly string[]): Promise<T> {
    const body = { input: { text }, sync: true, sync_timeout_s: 200 }
    const task = await platform.api.post<{ status: string; result: T; error: string | null }>(
      `/endpoints/${endpoint}/infer`,
      body,
    )
    assert.equal(task.status, 'succeeded', JSON.stringify(task))
    return task.result
  }

  /** Downloads the files of a finished run. */
  async function download(jobId: string): Promise<string> {
    const { download_urls } = await platform.api.get<{
      download_urls: { filename: string; download_url: string }[]
    }>(`/training/runs/${jobId}/artifacts/download-urls`)
    const modelFolder = join(folder, jobId)
    for (const { filename, download_url } of download_urls) {
      const path = join(modelFolder, filename)
      await mkdir(dirname(path), { recursive: true })
      const { body } = await request(download_url)
      await writeFile(path, Buffer.from(await body.arrayBuffer()))
    }
    return modelFolder
  }

  it('tunes an imported embedder on triplets so that it ranks its own rows better than its base does', async () => {
    const rows = colourTriplets()
    const jobId = await start('triplets', { ...EMBEDDING, base: fromBase() }, { dataset_type: 'triplets' })
    const { metrics } = await completed(jobId)

    assert.ok(metrics['train_mrr']! > metrics['base_eval_mrr']!, JSON.stringify(metrics))
    assert.ok(metrics['eval_mrr']! > metrics['base_eval_mrr']!, JSON.stringify(metrics))
    assert.equal(metrics['eval_rows'], 10)
    const endpoint = (await served(jobId, 'tuned-embedder')) as { task_type?: string }
    assert.equal(endpoint.task_type, 'embeddings', JSON.stringify(endpoint))

    const texts = [...rows.map(({ anchor }) => anchor), ...rows.map(({ positive }) => positive)]
    const { embeddings } = await ask<{ embeddings: number[][] }>('tuned-embedder', texts)
    const [plain = [], before = []] = await probeSpecialists(
      [await download(jobId), await tinySpecialist()].map((model) => ({
        ask: 'embed' as const,
        folder: model,
        texts,
      })),
    )
    assertClose(embeddings, plain)
    assert.ok(rankOf(embeddings) > rankOf(before) + 0.1)
    const { nodes } = await ready(jobId)
    assert.ok(nodes.some(({ id }) => id === `version:${base.version_id}`))
  })

  it('tunes a hub encoder into a classifier that returns the same labels as transformers', async () => {
    const jobId = await start('labelled', CLASSIFIER)
    const { metrics } = await completed(jobId)
    await served(jobId, 'tuned-classifier')
    const texts = labelledColours().map(({ text }) => text)

    const { results } = await ask<{ results: { label: string; scores: Record<string, number> }[] }>(
      'tuned-classifier',
      texts,
    )

    assert.ok(metrics['train_accuracy']! > 0.9 && metrics['accuracy']! <= 1, JSON.stringify(metrics))
    const right = labelledColours().filter(({ label }, i) => results[i]!.label === label).length
    assert.ok(right / texts.length > 0.8, `${right} of ${texts.length}`)
    const [logits = []] = await probeSpecialists([{ ask: 'classify', folder: await download(jobId), texts }])
    assertClose(
      results.map(({ scores }) => ['cold', 'none', 'warm'].map((label) => scores[label]!)),
      logits.map(softmax),
    )
  })

  /** Waits until the version of a run has passed its test; returns its lineage. */
  async function ready(jobId: string): Promise<{ nodes: { id: string }[] }> {
    const { model_id } = await platform.api.post<Model>('/models', { name: jobId, job_id: jobId })
    const tested = await eventually('the end of its test', async () => {
      const { latest_version } = await platform.api.get<Model>(`/models/${model_id}`)
      const { lifecycle_status, lifecycle_note } = latest_version!
      return lifecycle_status === 'candidate' && !lifecycle_note ? undefined : latest_version
    })
    assert.equal(tested?.lifecycle_status, 'ready', tested?.lifecycle_note ?? '')
    return platform.api.get(`/models/${model_id}/lineage`)
  }
})

/** Returns the mean reciprocal rank of the positives. The anchors' vectors come first, then those of their positives. */
function rankOf(vectors: readonly (readonly number[])[]): number {
  const anchors = vectors.slice(0, vectors.length / 2)
  const positives = vectors.slice(anchors.length)
  const ranks = anchors.map((anchor, i) => {
    const scores = positives.map((positive) =>
      anchor.reduce((sum, value, k) => sum + value * (positive[k] ?? 0), 0),
    )
    return scores.filter((score) => score >= scores[i]!).length
  })
  return ranks.reduce((sum, rank) => sum + 1 / rank, 0) / ranks.length
}

function softmax(logits: readonly number[]): number[] {
  const powers = logits.map((logit) => Math.exp(logit - Math.max(...logits)))
  const sum = powers.reduce((a, b) => a + b, 0)
  return powers.map((power) => power / sum)
}

function assertClose(found: readonly (readonly number[])[], expected: readonly (readonly number[])[]): void {
  assert.equal(found.length, expected.length)
  const apart = found.flatMap((row, i) => row.map((value, j) => Math.abs(value - (expected[i]?.[j] ?? NaN))))
  assert.ok(Math.max(...apart) < CLOSE, `${Math.max(...apart)}`)
}
