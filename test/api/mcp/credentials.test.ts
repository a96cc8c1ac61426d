import assert from 'node:assert/strict'
import type { Role } from '../../../api/http/caller.ts'
import { BUILT_IN_TOOLS } from '../../../api/mcp/tools/index.ts'
import { newId } from '../../../domain/ids.ts'
import { buildEndpoint, buildRun, buildVersion } from '../../support/builders/build-endpoint.ts'
import { readyDataset } from '../../support/builders/training.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp, type McpClient } from '../../support/servers/clients/mcp-client.ts'

const ROLES = ['viewer', 'operator', 'admin'] as const satisfies Role[]

/**
 * The lowest role that each tool requires, listed separately from the tools, with arguments that name something in the
 * account.
 */
const TOOLS: Readonly<Record<string, { least: Role; args: (own: Own) => object }>> = {
  list_endpoints: { least: 'viewer', args: () => ({}) },
  get_endpoint: { least: 'viewer', args: ({ endpoint }) => ({ endpoint_id: endpoint }) },
  run_inference: {
    least: 'operator',
    args: ({ endpoint, task }) => ({ endpoint_id: endpoint, input: {}, task_id: task }),
  },
  list_models: { least: 'viewer', args: () => ({}) },
  list_trainable_models: { least: 'viewer', args: () => ({}) },
  get_model_schema: { least: 'viewer', args: () => ({ model_config_id: 'tabular-regression' }) },
  list_datasets: { least: 'viewer', args: () => ({}) },
  create_dataset: { least: 'operator', args: () => ({ name: 'table' }) },
  create_training_run: {
    least: 'operator',
    args: ({ dataset }) => ({
      job_name: 'prices',
      model_config_id: 'tabular-regression',
      dataset_id: dataset,
    }),
  },
  list_training_runs: { least: 'viewer', args: () => ({}) },
  get_training_run: { least: 'viewer', args: ({ run }) => ({ run_id: run }) },
  get_training_metrics: { least: 'viewer', args: ({ run }) => ({ run_id: run }) },
  get_training_logs: { least: 'viewer', args: ({ run }) => ({ run_id: run }) },
  cancel_training_run: { least: 'operator', args: ({ pending }) => ({ run_id: pending }) },
  register_for_inference: { least: 'operator', args: ({ run }) => ({ run_id: run }) },
}

interface Own {
  endpoint: string
  task: string
  dataset: string
  run: string
  pending: string
}

describe('MCP tool credentials', () => {
  let api: TestApi
  let accountId: string
  let own: Own
  const clients = new Map<Role | 'stranger', McpClient>()
  before(async () => {
    api = await startApi()
    ;({ accountId } = await api.account())
    own = await things(api, accountId)
    for (const role of ROLES) clients.set(role, await connectMcp(api, await api.key(accountId, role)))
    clients.set('stranger', await connectMcp(api, (await api.account()).key))
  })
  after(async () => {
    for (const client of clients.values()) await client[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
  })

  it('are listed for every built-in tool and for no others', () => {
    const names = BUILT_IN_TOOLS.map(({ name }) => name)

    assert.deepEqual(names.toSorted(), Object.keys(TOOLS).toSorted())
  })

  for (const [name, { least, args }] of Object.entries(TOOLS)) {
    it(`need at least the role ${least} for ${name}`, async () => {
      for (const role of ROLES) {
        const { isError, text } = await clients.get(role)!.call(name, args(own))

        if (ROLES.indexOf(role) < ROLES.indexOf(least)) {
          assert.equal(isError, true, text)
          assert.match(
            text,
            new RegExp(`^This requires a key with the role ${least}; yours has the role ${role}\\.$`),
          )
        } else assert.equal(isError, false, `${role}: ${text}`)
      }
    })

    // Tools whose arguments name something in the account.
    if (args.length > 0) {
      it(`do not let ${name} find anything in another account`, async () => {
        const { isError, text } = await clients.get('stranger')!.call(name, args(own))

        assert.equal(isError, true, text)
        assert.match(text, /there is no|no such/i)
      })
    }
  }

  it('are required before a message is read: a request without a key gets 401 and a hint', async () => {
    for (const headers of [{}, { authorization: 'Bearer hk_unknown' }]) {
      const {
        status,
        body,
        headers: answered,
      } = await api.call('POST', '/mcp', {
        body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        headers: { accept: 'application/json, text/event-stream', ...headers },
      })

      assert.equal(status, 401)
      assert.match(String(answered['www-authenticate']), /^Bearer/)
      assert.equal(body.jsonrpc, '2.0')
      assert.equal(body.id, null)
      assert.equal(body.error.data.code, 'unauthenticated')
    }
    const metadata = await api.call('GET', '/.well-known/oauth-protected-resource/mcp')
    assert.equal(metadata.body.resource, `${api.baseUrl}/mcp`)
    assert.deepEqual(metadata.body.bearer_methods_supported, ['header'])
    assert.equal('authorization_servers' in metadata.body, false)
  })
})

/** Creates one object of each kind that tools refer to. */
async function things(api: TestApi, accountId: string): Promise<Own> {
  const { db } = api.database
  const run = await buildRun(db, accountId, { job_name: 'Árbol 7' })
  const version = await buildVersion(db, accountId, { job_id: run.id } as never)
  const endpoint = await buildEndpoint(db, accountId, {
    version_id: version.id,
    model_key: version.model_key,
  })
  const pending = await buildRun(db, accountId, { status: 'pending' })
  const task = newId()
  await db
    .insertInto('task')
    .values({
      id: task,
      account_id: accountId,
      endpoint_id: endpoint.id,
      status: 'succeeded',
      surface: 'mcp',
      model_key: endpoint.model_key,
      price_micro: 0,
      result: Buffer.from('{}'),
    })
    .execute()
  return {
    endpoint: endpoint.id,
    task,
    dataset: await readyDataset(api, accountId),
    run: run.id,
    pending: pending.id,
  }
}
