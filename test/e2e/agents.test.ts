import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { regressionTable } from '../support/builders/tables.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { connectMcp, type McpClient, REVISIONS } from '../support/servers/clients/mcp-client.ts'
import { inspector, requireInspector } from '../support/servers/clients/mcp-inspector.ts'
import { PYTHON_CLIENTS, requirePythonMcp, startPythonMcp } from '../support/servers/clients/mcp-python.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

const ENDED = ['completed', 'failed', 'cancelled']

describe('an agent on a platform', function () {
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

  const job = 'trains, serves and calls a model with tools'

  for (const revision of REVISIONS) {
    it(`${job}, with the TypeScript client in ${revision}`, async () => {
      const { ready } = platform
      await using mcp = await connectMcp({ baseUrl: ready.base_url }, ready.api_key, { revision })

      await doTheJob(mcp, `House prices ${revision}`, ready.api_key)
    })
  }

  it('reads the table, the log and the metrics of its run', async () => {
    const { ready } = platform
    await using mcp = await connectMcp({ baseUrl: ready.base_url }, ready.api_key, { revision: '2026-07-28' })
    const textOf = async (uri: string) => {
      const { contents } = await mcp.client.readResource({ uri })
      return (contents[0] as { text: string }).text
    }

    const { resources } = await mcp.client.listResources()

    const [rows = '', log = '', metrics = ''] = ['rows', 'log', 'metrics'].map(
      (kind) => resources.find(({ uri }) => uri.endsWith(`/${kind}`))?.uri,
    )
    const table = await textOf(rows)
    assert.equal(table.trim().split('\n').length, 21)
    assert.match(table, /^age,income,region,target\n/)
    assert.match(await textOf(log), /Reading the dataset/)
    assert.equal(JSON.parse(await textOf(metrics)).metrics.epochs.length, 5)
    await assert.rejects(textOf(rows.replace(/.{12}\/rows$/, '000000000000/rows')), /not found/i)
  })

  describe('with the Inspector', () => {
    before(requireInspector)

    it(`${job}, with one process per call`, async () => {
      const { ready } = platform
      const mcp = inspector({ baseUrl: ready.base_url, key: ready.api_key })

      await doTheJob(mcp, 'House prices Inspector', ready.api_key)
    })
  })

  describe('with Python clients', () => {
    before(requirePythonMcp)

    for (const client of PYTHON_CLIENTS) {
      it(`${job}, with ${client}`, async () => {
        const { ready } = platform
        await using mcp = await startPythonMcp(client, { baseUrl: ready.base_url, key: ready.api_key })

        await doTheJob(mcp, `House prices ${client}`, ready.api_key)
      })
    }
  })
})

type Caller = Pick<McpClient, 'call'>

/** Does an agent's whole job with tools; only the file is uploaded over REST. */
async function doTheJob(mcp: Caller, job_name: string, key: string): Promise<void> {
  const model_config_id = 'tabular-regression'
  const { model_configs: configs } = await result(mcp, 'list_trainable_models')
  assert.ok(configs.some(({ model_id }: { model_id: string }) => model_id === model_config_id))
  const { schema } = await result(mcp, 'get_model_schema', { model_config_id })
  assert.ok(schema.properties.epochs)
  const { dataset_id, upload } = await result(mcp, 'create_dataset', { name: 'houses' })
  await uploadBy(upload, regressionTable(300), key)

  const { job_id: run_id } = await result(mcp, 'create_training_run', {
    job_name,
    model_config_id,
    dataset_id,
    operating_mode: 'economy',
    hyperparameters: { epochs: 5 },
  })
  let run = await result(mcp, 'get_training_run', { run_id })
  for (; !ENDED.includes(run.status); await sleep(500))
    run = await result(mcp, 'get_training_run', { run_id })
  assert.equal(run.status, 'completed', run.error_message)
  assert.equal(run.operating_mode, 'eco')
  assert.equal((await result(mcp, 'get_training_metrics', { run_id })).metrics.epochs.length, 5)
  assert.equal((await result(mcp, 'get_training_logs', { run_id, limit: 1 })).logs.length, 1)

  const endpoint = await result(mcp, 'register_for_inference', { run_id })
  assert.match(endpoint.name, /^house-prices-/)
  const repeated = await result(mcp, 'register_for_inference', { run_id })
  assert.equal(repeated.endpoint_id, endpoint.endpoint_id)
  const answer = await waited(mcp, { endpoint_id: endpoint.name, input: endpoint.example_input })
  assert.equal(answer.result.predictions.length, endpoint.example_input.instances.length)
  assert.deepEqual(await result(mcp, endpoint.name, endpoint.example_input), answer.result)
}

async function result(mcp: Caller, name: string, args: object = {}): Promise<AnyBody> {
  const { isError, text, body } = await mcp.call(name, args)
  assert.equal(isError, false, `${name}: ${text}`)
  return body
}

/** Calls a model, and waits for the task as the response instructs. */
async function waited(mcp: Caller, args: object) {
  let answer = await result(mcp, 'run_inference', args)
  while (answer.status !== 'succeeded')
    answer = await result(mcp, 'run_inference', { ...args, task_id: answer.task_id })
  return answer
}

/** Uploads a file by following the steps in the result of `create_dataset`. */
async function uploadBy(
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
