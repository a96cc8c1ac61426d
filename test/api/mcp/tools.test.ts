import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import { connectMcp, REVISIONS } from '../../support/servers/clients/mcp-client.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'

const BUILT_IN = [
  'list_endpoints',
  'get_endpoint',
  'run_inference',
  'list_models',
  'list_trainable_models',
  'get_model_schema',
  'list_datasets',
  'create_dataset',
  'create_training_run',
  'list_training_runs',
  'get_training_run',
  'get_training_metrics',
  'get_training_logs',
  'cancel_training_run',
  'register_for_inference',
]

describe('the MCP server', () => {
  let on: InferenceApi
  let warm: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel())
  })
  after(() => on?.[Symbol.asyncDispose]())

  for (const revision of REVISIONS) {
    describe(`for clients of ${revision}`, () => {
      it('lists its built-in tools with schemas, annotations and output schemas', async () => {
        await using mcp = await connectMcp(on.api, on.caller.key, { revision })

        const { tools } = await mcp.client.listTools()

        assert.deepEqual(
          tools.slice(0, BUILT_IN.length).map(({ name }) => name),
          BUILT_IN,
        )
        for (const tool of tools.slice(0, BUILT_IN.length)) {
          assert.ok(tool.title && tool.description && tool.outputSchema && tool.annotations, tool.name)
          assert.equal(tool.inputSchema.type, 'object')
          assert.doesNotMatch(JSON.stringify(tool), /"\$id"|discriminator/)
        }
        assert.equal(
          tools.find(({ name }) => name === 'cancel_training_run')?.annotations?.destructiveHint,
          true,
        )
        assert.equal(tools.find(({ name }) => name === 'list_datasets')?.annotations?.readOnlyHint, true)
      })

      it("runs an inference and records MCP as the task's surface", async () => {
        await using mcp = await connectMcp(on.api, on.caller.key, { revision })

        const { isError, body, text } = await mcp.call('run_inference', {
          endpoint_id: warm.name,
          input: { instances: [1, 2] },
        })

        assert.equal(isError, false, text)
        assert.deepEqual(body.result.predictions, [1, 2])
        assert.deepEqual(JSON.parse(text), body)
        const row = await on.api.database.db
          .selectFrom('task')
          .select(['surface', 'account_id'])
          .where('id', '=', body.task_id)
          .executeTakeFirstOrThrow()
        assert.deepEqual(row, { surface: 'mcp', account_id: on.caller.accountId })
      })

      it("reports invalid arguments to the agent by the tool's own argument names", async () => {
        await using mcp = await connectMcp(on.api, on.caller.key, { revision })

        const input = await mcp.call('run_inference', { endpoint_id: warm.id, input: { instances: [true] } })
        const unknown = await mcp.call('list_datasets', { limits: 3 })
        const config = await mcp.call('get_model_schema', { model_config_id: 'nothing' })
        const run = await mcp.call('get_training_run', { run_id: newId() })

        assert.equal(input.isError, true)
        assert.match(input.text, /^Invalid arguments: input\.instances\[0\]: /)
        assert.equal(unknown.isError, true)
        assert.match(unknown.text, /limits/)
        assert.match(config.text, /^There is no model config nothing; there are embedding-/)
        assert.match(
          run.text,
          /^There is no training run with this id\. list_training_runs shows the available ones\.$/,
        )
      })

      it('answers a call to an unknown tool with a protocol error', async () => {
        await using mcp = await connectMcp(on.api, on.caller.key, { revision })

        await assert.rejects(mcp.call('make_coffee'), (err: { code: number; message: string }) => {
          assert.equal(err.code, -32602)
          assert.match(err.message, /Unknown tool: make_coffee/)
          return true
        })
      })
    })
  }
})
