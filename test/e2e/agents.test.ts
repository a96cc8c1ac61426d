import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { regressionTable } from '../support/builders/tables.ts'
import { connectMcp, type McpClient } from '../support/servers/mcp-client.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

const ENDED = ['completed', 'failed', 'cancelled']

describe('an agent of a platform', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path)
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  it('trains a model by tools, serves it and asks it', async () => {
    const { ready } = platform
    await using mcp = await connectMcp({ baseUrl: ready.base_url }, ready.api_key, { revision: '2026-07-28' })

    const { model_configs: configs } = await result(mcp, 'list_trainable_models')
    const model_config_id = 'tabular-regression'
    assert.ok(configs.some(({ model_id }: { model_id: string }) => model_id === model_config_id))
    const { schema } = await result(mcp, 'get_model_schema', { model_config_id })
    assert.ok(schema.properties.epochs)
    const dataset = await result(mcp, 'create_dataset', { name: 'houses' })
    await upload(dataset.upload, regressionTable(300), ready.api_key)
    const rows = await mcp.client.readResource({ uri: `hearth://datasets/${dataset.dataset_id}/rows` })
    assert.match(String((rows.contents[0] as { text: string }).text), /^age,income,region,target\n/)

    const { job_id: run_id } = await result(mcp, 'create_training_run', {
      job_name: 'House prices',
      model_config_id,
      dataset_id: dataset.dataset_id,
      operating_mode: 'economy',
      hyperparameters: { epochs: 5 },
    })
    let run = await result(mcp, 'get_training_run', { run_id })
    for (; !ENDED.includes(run.status); await sleep(500))
      run = await result(mcp, 'get_training_run', { run_id })
    assert.equal(run.status, 'completed', run.error_message)
    assert.equal(run.operating_mode, 'eco')
    assert.equal((await result(mcp, 'get_training_metrics', { run_id })).metrics.epochs.length, 5)
    assert.ok((await result(mcp, 'get_training_logs', { run_id, limit: 3 })).logs.length <= 3)

    const endpoint = await result(mcp, 'register_for_inference', { run_id })
    assert.equal(endpoint.name, 'house-prices')
    const repeated = await result(mcp, 'register_for_inference', { run_id })
    assert.equal(repeated.endpoint_id, endpoint.endpoint_id)
    const answer = await waited(mcp, { endpoint_id: endpoint.name, input: endpoint.example_input })
    assert.equal(answer.result.predictions.length, endpoint.example_input.instances.length)
    const byTool = await result(mcp, endpoint.name, endpoint.example_input)
    assert.deepEqual(byTool, answer.result)
  })
})

// oxlint-disable-next-line typescript/no-explicit-any -- results of every shape
async function result(mcp: McpClient, name: string, args: object = {}): Promise<any> {
  const { isError, text, body } = await mcp.call(name, args)
  assert.equal(isError, false, `${name}: ${text}`)
  return body
}

/** Asks a model, and waits on as the answer says. */
async function waited(mcp: McpClient, args: object) {
  let answer = await result(mcp, 'run_inference', args)
  while (answer.status !== 'succeeded')
    answer = await result(mcp, 'run_inference', { ...args, task_id: answer.task_id })
  return answer
}

/** Uploads a file in the steps that the result of `create_dataset` names. */
async function upload(
  { init_url, commit_url }: { init_url: string; commit_url: string },
  table: string | Buffer,
  key: string,
): Promise<void> {
  const headers = { 'x-api-key': key, 'content-type': 'application/json' }
  const file = JSON.stringify({ filename: 'houses.csv', content_type: 'text/csv' })
  const opened = await request(init_url, { method: 'POST', headers, body: file })
  const { upload_id, signed_url } = (await opened.body.json()) as { upload_id: string; signed_url: string }
  const put = await request(signed_url, {
    method: 'PUT',
    headers: { 'content-type': 'text/csv' },
    body: table,
  })
  assert.ok(put.statusCode < 300, await put.body.text())
  const committed = await request(commit_url.replace('{upload_id}', upload_id), {
    method: 'POST',
    headers: { 'x-api-key': key },
  })
  assert.equal(((await committed.body.json()) as { status: string }).status, 'ready')
}
