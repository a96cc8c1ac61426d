import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as endpointRepository from '../../../db/repositories/endpoints/endpoints.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import { newId } from '../../../domain/ids.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { callApi } from '../../support/servers/api.ts'
import { startDatabase } from '../../support/servers/database.ts'
import { gatewayEnv, runGateway } from '../../support/servers/gateway-process.ts'

const TOOLS = 60

describe('manifest versions while gateways are killed', () => {
  it('increase once per change', async () => {
    await using database = await startDatabase()
    const { db } = database
    const folder = await mkdtemp(join(tmpdir(), 'hearth-manifest-'))
    await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
    const accountId = newId()
    await db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
    const { key } = await db
      .transaction()
      .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId, name: 'test', role: 'admin' }))
    const ids: string[] = []
    for (let n = 0; n < TOOLS; n++) ids.push((await buildEndpoint(db, accountId)).id)
    const env = gatewayEnv(database.url, folder)
    /** The versions of the account's own tools, without those of the platform. */
    const versions = async (baseUrl: string): Promise<string[]> => {
      const { body } = await callApi(`${baseUrl}/api/builder/v1/mcp/manifest`, 'GET', { key })
      const tools = body.tools as { kind: string; version: string }[]
      return tools.filter(({ kind }) => kind === 'trained_model').map(({ version }) => version)
    }

    for (let round = 1; round <= 4; round++) {
      for (const id of ids) {
        const schema = JSON.stringify({ type: 'object', properties: { [`of-round-${round}`]: {} } })
        await db
          .transaction()
          .execute((trx) => endpointRepository.updateEndpoint(trx, id, { input_schema: schema }, new Date()))
      }
      await using first = runGateway(env)
      await using second = runGateway(env)
      const [a, b] = await Promise.all([first.ready(), second.ready()])
      const reads = [a, b].map(({ baseUrl }) => versions(baseUrl).catch(() => []))
      await sleep(round * 15)
      await Promise.all([first.kill(), second.kill()])
      await Promise.all(reads)
      await using last = runGateway(env)

      const seen = await versions((await last.ready()).baseUrl)
      assert.deepEqual([seen.length, ...new Set(seen)], [TOOLS, `${round}.0.0`])
    }
  })
})
