import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import type { Endpoint } from '../../schemas/endpoint.ts'
import type { Model } from '../../schemas/model.ts'
import type { NodeView } from '../../schemas/nodes/node.ts'
import { persistently } from '../faults/work.ts'
import { eventually } from '../support/assertions/until.ts'
import { sumRows } from '../support/builders/chat-rows.ts'
import { filesOf } from '../support/builders/models/hub-repos.ts'
import { makeTinyLlm, requireLlm } from '../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startHub, type TestHub } from '../support/servers/hub-server.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

const REPO = 'hearth-tests/tiny-llama'
const TUNING = {
  base_model: REPO,
  adapter: 'lora',
  num_epochs: 2,
  sequence_len: 128,
  learning_rate: 0.01,
  val_set_size: 0.2,
  checkpoint_every_steps: 5,
}

const LOADED: readonly string[] = ['warm', 'idle', 'running']

interface Run {
  status: string
  error_message: string | null
  parent_job_id: string | null
  version_id: string | null
  metrics: { eval_loss?: number; eval_perplexity?: number; epochs: { epoch: number; val_loss: number }[] }
}
interface Chat {
  choices: { message: { role: string; content: string } }[]
  usage: { completion_tokens: number }
}

describe('fine-tuning a language model, from rows to a chat', function () {
  this.timeout(900_000)
  const folder = temporaryFolder()
  let data: ReturnType<typeof dataDirectory>
  let hub: TestHub
  let platform: TestPlatform
  let datasetId: string
  /** The first run that completed, and the one that started from its model. */
  let tuned: string
  let retrained: string

  before(requireLlm)
  before(async () => {
    const model = join(folder.path, 'model')
    await makeTinyLlm(model)
    hub = await startHub({ repoId: REPO, files: await filesOf(model), licence: 'mit' })
    data = dataDirectory()
    platform = await startTestPlatform(data.path, { env: { HEARTH_HUB_ENDPOINT: hub.url } })
    const bytes = Buffer.from(
      sumRows(40)
        .map((row) => JSON.stringify(row))
        .join('\n'),
    )
    const fields = { name: 'sums', storage_format: 'jsonl' }
    const uploaded = await platform.api.upload<{ dataset_id: string }>(
      '/datasets/upload',
      { name: 'sums.jsonl', bytes },
      fields,
    )
    datasetId = uploaded.dataset_id
  })
  after(async () => {
    await platform?.stop()
    await hub?.[Symbol.asyncDispose]()
    data?.[Symbol.dispose]()
    folder[Symbol.dispose]()
  })

  async function start(body: object = {}, hyperparameters: object = {}): Promise<string> {
    const { job_id } = await platform.api.post<{ job_id: string }>('/training/runs', {
      job_name: 'sums',
      model: 'llm-qlora-finetune',
      dataset_id: datasetId,
      hyperparameters: { ...TUNING, ...hyperparameters },
      ...body,
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

  /** Waits for the first event of a type and returns its detail. */
  async function happened(jobId: string, type: string): Promise<string> {
    for (;;) {
      const { events } = await platform.api.get<{ events: { event_type: string; detail: string }[] }>(
        `/training/runs/${jobId}/events`,
      )
      const event = events.find(({ event_type }) => event_type === type)
      if (event) return event.detail
      await sleep(100)
    }
  }

  async function logsOf(jobId: string): Promise<string> {
    const { logs } = await platform.api.get<{ logs: { message: string }[] }>(`/training/runs/${jobId}/logs`)
    return logs.map(({ message }) => message).join('\n')
  }

  async function chat(model: string): Promise<Chat> {
    const { base_url, api_key } = platform.ready
    const { statusCode, body } = await request(`${base_url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content: 'Add 3 and 4.' }],
        max_tokens: 8,
        temperature: 0,
      }),
      headersTimeout: 200_000,
    })
    const text = await body.text()
    assert.equal(statusCode, 200, text)
    return JSON.parse(text) as Chat
  }

  it('fine-tunes a hub model, registers the result and chats with it', async () => {
    const jobId = await start()
    const run = await ended(jobId)

    assert.equal(run.status, 'completed', run.error_message ?? '')
    tuned = jobId
    assert.equal(run.metrics.epochs.length, 2)
    assert.ok(run.metrics.eval_perplexity! > 1)
    const { artifacts } = await platform.api.get<{ artifacts: { filename: string }[] }>(
      `/training/runs/${jobId}/artifacts`,
    )
    const names = artifacts.map(({ filename }) => filename)
    assert.ok(
      names.includes('adapter/adapter_model.safetensors') && names.includes('model/model.safetensors'),
    )
    await platform.api.post(`/training/runs/${jobId}/register-for-inference`, { name: 'sums' })

    const { choices, usage } = await chat('sums')

    assert.equal(choices[0]?.message.role, 'assistant')
    assert.ok(usage.completion_tokens > 0)
  })

  it('serves results as adapters in the server of their imported base', async () => {
    const { base_url, operations_key, account_id } = platform.ready
    const path = join(folder.path, 'model')
    const imported = { name: 'base-llama', path, task: 'chat', accountId: account_id }
    const { version_id } = await importModel(new AdminClient(base_url, operations_key), imported)
    const base = { type: 'model_version', version_id }
    const { base_model: _, ...hyperparameters } = TUNING
    /** Returns the loaded models of this test's runs that have no server of their own. */
    const adapters = async () => {
      const nodes = await new AdminClient(base_url, operations_key).all<NodeView>('/nodes', 'nodes')
      return nodes
        .flatMap(({ models }) => models)
        .filter(({ model_key, state }) => model_key.startsWith('sums-') && LOADED.includes(state))
        .filter(({ memory_mb }) => memory_mb === 0)
    }
    const texts = new Map<string, string>()
    for (const [name, seed] of [
      ['first-adapter', 1],
      ['second-adapter', 2],
    ] as const) {
      const run = await start({ base, hyperparameters: { ...hyperparameters, seed } })
      assert.equal((await ended(run)).status, 'completed')
      const path = `/training/runs/${run}/register-for-inference`
      const endpoint = await platform.api.post<Endpoint>(path, { name })
      assert.deepEqual([endpoint.serve_as, endpoint.base_version_id], ['adapter', version_id])
      texts.set(name, (await chat(name)).choices[0]?.message.content ?? '')
      // The test of the run's model may have loaded its merged weights, which answer until they are unloaded.
      await eventually(`${name} in the server of its base`, async () => {
        const { choices } = await chat(name)
        assert.equal(choices[0]?.message.content, texts.get(name))
        return (await adapters()).length >= texts.size || undefined
      })
      const { engine_faults } = await platform.api.get<Endpoint>(`/endpoints/${endpoint.endpoint_id}`)
      assert.deepEqual(engine_faults, [])
    }

    const whole = await chat('base-llama')
    const { result } = await platform.api.post<{ result: Chat }>('/endpoints/first-adapter/infer', {
      input: { messages: [{ role: 'user', content: 'Add 3 and 4.' }], max_tokens: 8, temperature: 0 },
    })

    assert.equal(result.choices[0]?.message.content, texts.get('first-adapter'))
    assert.notEqual(whole.choices[0]?.message.content, texts.get('first-adapter'))
    assert.equal((await adapters()).length, 2)
  })

  it('continues training from the weights of the result', async () => {
    const base = await ended(tuned)
    retrained = await start({ base: { type: 'job', job_id: tuned } })
    const run = await ended(retrained)

    assert.equal(run.status, 'completed', run.error_message ?? '')
    assert.equal(run.parent_job_id, tuned)
    assert.ok(run.metrics.epochs[0]!.val_loss < base.metrics.epochs[0]!.val_loss)
    const answer = await request(`${platform.ready.base_url}/api/builder/v1/training/runs/${tuned}`, {
      method: 'DELETE',
      headers: { 'x-api-key': platform.ready.api_key },
    })
    assert.equal(answer.statusCode, 409)
    assert.match(await answer.body.text(), /in use: the endpoint sums serves it/)
  })

  it('merges the result exactly once while the node, the API and the control worker are killed', async () => {
    const sources = [
      { type: 'job', job_id: tuned },
      { type: 'job', job_id: retrained },
    ]
    const { job_id } = await platform.api.post<{ job_id: string }>('/training/merges', {
      name: 'blended',
      method: 'slerp',
      sources,
    })
    for (const victim of ['node', 'control', 'api'] as const) platform.kill(victim)

    const merge = await eventually('the end of the merge', async () => {
      const now = await persistently('the merge', () => platform.api.get<Run>(`/training/runs/${job_id}`))
      return ['completed', 'failed'].includes(now.status) ? now : undefined
    })
    assert.equal(merge.status, 'completed', merge.error_message ?? '')
    const { events } = await platform.api.get<{ events: { event_type: string }[] }>(
      `/training/runs/${job_id}/events`,
    )
    assert.equal(events.filter(({ event_type }) => event_type === 'completed').length, 1)
    const { model_id } = await platform.api.post<Model>('/models', { name: 'blended', job_id })
    const tested = await eventually('the end of its test', async () => {
      const { latest_version } = await platform.api.get<Model>(`/models/${model_id}`)
      const { lifecycle_status, lifecycle_note } = latest_version!
      return lifecycle_status === 'candidate' && !lifecycle_note ? undefined : latest_version
    })
    assert.equal(tested?.lifecycle_status, 'ready', tested?.lifecycle_note ?? '')
    await platform.api.post(`/training/runs/${job_id}/register-for-inference`, { name: 'blended-chat' })
    assert.equal((await chat('blended-chat')).choices[0]?.message.role, 'assistant')
  })

  it('resumes from the last checkpoint after its node is killed', async () => {
    const jobId = await start({}, { seed: 8, num_epochs: 6 })
    assert.match(await happened(jobId, 'checkpoint'), /^step \d+$/)
    platform.kill('node')
    const run = await ended(jobId)

    assert.equal(run.status, 'completed', run.error_message ?? '')
    assert.match(await logsOf(jobId), /Training resumes after step \d+\./)
    assert.equal(run.metrics.epochs.length, 6)
  })

  it('fails a run with a one-sentence reason when its base model is not available', async () => {
    const run = await ended(await start({}, { base_model: 'nobody/nothing' }))

    assert.equal(run.status, 'failed')
    assert.match(
      run.error_message ?? '',
      /The base model nobody\/nothing is not available: the hub has no such/,
    )
  })
})
