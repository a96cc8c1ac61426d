import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { PYTHON_CLIENTS, requirePythonMcp, startPythonMcp } from '../../support/servers/clients/mcp-python.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel, until } from '../../support/servers/nodes/node.ts'

describe('Python MCP clients', () => {
  let on: InferenceApi
  let warm: EndpointRow
  before(requirePythonMcp)
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), { name: 'sales.churn' })
  })
  after(() => on?.[Symbol.asyncDispose]())

  for (const client of PYTHON_CLIENTS) {
    it(`${client} lists and calls tools, receives progress and reads errors`, async () => {
      await using mcp = await startPythonMcp(client, { baseUrl: on.api.baseUrl, key: on.caller.key })
      const cold = await on.endpointOver(await addModel(on.api, { name: 'cold' }))
      const { db } = on.api.database

      const names = await mcp.names()
      const inference = await mcp.call('run_inference', { endpoint_id: warm.name, input: { instances: [1] } })
      const tool = await mcp.call('sales.churn', { instances: [2] })
      const wrong = await mcp.call('get_training_run', { run_id: 'x' })
      const waiting = mcp.call('run_inference', { endpoint_id: cold.id, input: { instances: [3] } })
      const row = () =>
        db.selectFrom('task').select('id').where('endpoint_id', '=', cold.id).executeTakeFirst()
      await until(async () => (await row()) !== undefined)
      const timer = setTimeout(() => {
        void db
          .updateTable('task')
          .set({ status: 'succeeded', result: Buffer.from('{"predictions":[3]}'), completed_at: new Date() })
          .where('endpoint_id', '=', cold.id)
          .execute()
      }, 4_000)
      const waited = await waiting
      clearTimeout(timer)

      assert.ok(names.includes('list_datasets') && names.includes('sales.churn'))
      assert.deepEqual(inference.body.result.predictions, [1])
      assert.deepEqual(tool.body.predictions, [2])
      assert.equal(wrong.isError, true)
      assert.match(wrong.text, /^Invalid arguments: run_id: /)
      assert.deepEqual(waited.body.result.predictions, [3])
      assert.equal(waited.progress[0], 'queued')
    }).timeout(120_000)
  }
})
