import assert from 'node:assert/strict'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import { newId } from '../../../domain/ids.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { callApi } from '../../support/servers/api.ts'
import { taskClient } from '../../support/servers/clients/mcp-client.ts'
import { startDatabase } from '../../support/servers/database.ts'
import { gatewayEnv, runGateway } from '../../support/servers/gateway-process.ts'

describe("agents' tasks when their gateway is killed", () => {
  it('continue on another gateway, each exactly once', async () => {
    await using database = await startDatabase()
    using folder = temporaryFolder()
    const { db } = database
    const accountId = newId()
    await db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
    const { key } = await db
      .transaction()
      .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId, name: 'test', role: 'operator' }))
    const { name } = await buildEndpoint(db, accountId)
    const env = gatewayEnv(database.url, folder.path)
    await using first = runGateway(env)
    await using second = runGateway(env)
    const [a, b] = await Promise.all([first.ready(), second.ready()])
    const at = (baseUrl: string) =>
      taskClient({ call: (method, path, call) => callApi(baseUrl + path, method, call) }, key)
    const ask = at(a.baseUrl)
    const call = () => ask('tools/call', { name, arguments: { instances: [{ x: 1 }] } })

    const tasks = await Promise.all([call(), call()])
    const unanswered = [call(), call()].map((answer) => answer.catch(() => undefined))
    const rows = () =>
      db
        .selectFrom('invocation')
        .innerJoin('task', 'task.id', 'invocation.task_id')
        .select(['invocation.id', 'task.id as task_id', 'task.status'])
        .where('invocation.account_id', '=', accountId)
        .execute()
    await until(async () => (await rows()).length === 4)
    await first.kill()
    await Promise.all(unanswered)

    const read = at(b.baseUrl)
    const all = await rows()
    assert.equal(all.length, 4)
    for (const { taskId } of tasks) assert.equal((await read('tasks/get', { taskId })).status, 'working')
    await db
      .updateTable('task')
      .set({ status: 'succeeded', result: Buffer.from('{"predictions":[1]}'), completed_at: new Date() })
      .where('account_id', '=', accountId)
      .execute()
    for (const { id } of all) {
      const { status, result } = await read('tasks/get', { taskId: `invocation.${id}` })
      assert.equal(status, 'completed')
      assert.deepEqual(result.structuredContent, { predictions: [1] })
    }
    assert.equal((await rows()).length, 4)
  }).timeout(60_000)
})
