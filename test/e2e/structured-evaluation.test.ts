import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import type { StructuredRun } from '../../schemas/cohorts/evaluator.ts'
import { EVALUATOR } from '../support/builders/cohorts/evidence.ts'
import {
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
} from '../support/builders/models/tiny-specialist.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'
import { colouredTexts } from '../support/servers/worlds/evaluation-world.ts'

const TOKEN = 'a token of the test'
const WIDTH = 32
const KINDS: Readonly<Record<string, string>> = {
  red: 'warm',
  brown: 'warm',
  pink: 'warm',
  blue: 'cold',
  green: 'cold',
}
const kindOf = (text: string): string => KINDS[text.split(' ')[1] ?? ''] ?? 'none'

describe('a classifier trained on the vectors of one encoder', function () {
  this.timeout(900_000)
  const stack = new AsyncDisposableStack()
  let platform: TestPlatform
  let native: string
  let classifier: string
  let anchors: string

  before(requireSpecialist)
  before(async () => {
    const directory = stack.use(dataDirectory())
    platform = stack.use(await startTestPlatform(directory.path, { env: { HEARTH_EVALUATOR_TOKEN: TOKEN } }))
    native = await encoder('native', { seed: 1 })
    const texts = colouredTexts()
    anchors = await upload(
      'anchors',
      texts.map((text) => ({ text })),
    )
    const vectors = await embed('native', texts)
    const rows = texts.map((text, i) => ({
      ...Object.fromEntries((vectors[i] ?? []).map((value, j) => [`x${j}`, value])),
      label: kindOf(text),
    }))
    classifier = await train(await upload('vectors', rows))
  })
  after(() => stack.disposeAsync())

  async function encoder(name: string, like: TinySpecialist): Promise<string> {
    const { base_url, operations_key, account_id } = platform.ready
    const path = await tinySpecialist({ hidden: WIDTH, ...like })
    const client = new AdminClient(base_url, operations_key)
    return (await importModel(client, { name, path, task: 'embeddings', accountId: account_id })).version_id
  }

  async function upload(name: string, rows: readonly object[]): Promise<string> {
    const bytes = Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n'))
    const file = { name: `${name}.jsonl`, bytes }
    const fields = { name, storage_format: 'jsonl' }
    return (await platform.api.upload<{ dataset_id: string }>('/datasets/upload', file, fields)).dataset_id
  }

  async function embed(endpoint: string, texts: readonly string[]): Promise<number[][]> {
    const found: number[][] = []
    for (let at = 0; at < texts.length; at += 60) {
      const body = { input: { text: texts.slice(at, at + 60) }, sync: true, sync_timeout_s: 200 }
      const task = await platform.api.post<{ status: string; result: { embeddings: number[][] } }>(
        `/endpoints/${endpoint}/infer`,
        body,
      )
      assert.equal(task.status, 'succeeded', JSON.stringify(task))
      found.push(...task.result.embeddings)
    }
    return found
  }

  async function train(dataset_id: string): Promise<string> {
    const { job_id } = await platform.api.post<{ job_id: string }>('/training/runs', {
      job_name: 'classifier',
      dataset_id,
      model_config_id: 'tabular-classification',
      hyperparameters: { target_column: 'label' },
    })
    for (;;) {
      const run = await platform.api.get<{ status: string; error_message: string | null }>(
        `/training/runs/${job_id}`,
      )
      if (run.status === 'completed') break
      assert.ok(['pending', 'running'].includes(run.status), run.error_message ?? run.status)
      await sleep(200)
    }
    const path = `/training/runs/${job_id}/register-for-inference`
    return (await platform.api.post<{ endpoint_id: string }>(path, { name: 'classifier' })).endpoint_id
  }

  async function ask<T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T> {
    const answer = await request(`${platform.ready.base_url}${EVALUATOR}/${path}`, {
      method,
      headers: { 'x-cohort-evaluator-token': TOKEN, ...(body && { 'content-type': 'application/json' }) },
      body: body ? JSON.stringify(body) : null,
    })
    const text = await answer.body.text()
    assert.ok(answer.statusCode < 300, text)
    return JSON.parse(text) as T
  }

  async function evaluate(source: string): Promise<StructuredRun> {
    const { run_id } = await ask<{ run_id: string }>('POST', 'structured-runs', {
      source: { model_config_id: source, space: 'output' },
      target: { model_config_id: native, space: 'output' },
      consumer: { endpoint_id: classifier, input_path: '/instances/0', answer_path: '/predictions/0/label' },
      anchors: { dataset_id: anchors, text_field: 'text', fit_count: 260, test_count: 220 },
    })
    for (;;) {
      const run = await ask<StructuredRun>('GET', `structured-runs/${run_id}`)
      if (['registered', 'rejected', 'failed'].includes(run.status)) return run
      await sleep(200)
    }
  }

  it('accepts mapped half-precision vectors of its encoder and returns the same answers', async () => {
    const source = await encoder('halved', { seed: 1, dtype: 'float16' })

    const run = await evaluate(source)

    assert.deepEqual([run.status, run.reasons], ['registered', []], JSON.stringify(run))
    assert.equal(run.metric, 'consumer_agreement')
    assert.ok((run.score ?? 0) >= 0.9 && (run.verdict?.null_model.upper_95 ?? 1) < 0.7)
    const adapter = run.map
    assert.deepEqual([adapter?.input_dimensions, adapter?.output_dimensions], [WIDTH, WIDTH])
  })

  it('rejects the vectors of an encoder that is too narrow for its classes', async () => {
    const run = await evaluate(await encoder('narrow', { seed: 7, hidden: 4, heads: 1 }))

    assert.equal(run.status, 'rejected', JSON.stringify(run))
    assert.ok(run.reasons.includes('below_threshold'))
    assert.equal(run.evidence_id, null)
  })
})
