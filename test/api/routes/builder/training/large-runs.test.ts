import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import { buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { type LeanApi, startLeanApi } from '../../../../support/servers/lean-api.ts'

const LARGE = JSON.stringify({ text: 'x'.repeat(4 * 1024 * 1024) })
const LISTING = { input_schema: LARGE, output_schema: LARGE, example_input: LARGE, example_output: LARGE }

describe('a run with large metrics and a large model description', () => {
  let on: LeanApi
  let caller: { accountId: string; key: string }
  before(async () => {
    on = await startLeanApi()
    caller = await on.api.account()
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Builds a completed run with its version. */
  async function build(): Promise<{ runId: string; versionId: string }> {
    const { db } = on.api.database
    const run = await buildRun(db, caller.accountId, { metrics: LARGE, output: LARGE })
    const version = await buildVersion(db, caller.accountId, { job_id: run.id, ...LISTING })
    return { runId: run.id, versionId: version.id }
  }
  const statusOf = async (method: string, path: string, body?: object): Promise<number> => {
    const call = { key: caller.key, ...(body && { body }) }
    return (await on.lean(() => on.api.call(method, `/api/builder/v1${path}`, call))).status
  }

  it('rejects state changes without its large fields being read', async () => {
    const { runId } = await build()

    const statuses: number[] = []
    for (const verb of [':pause', ':resume', '/cancel'])
      statuses.push(await statusOf('POST', `/training/runs/${runId}${verb}`))

    assert.deepEqual(statuses, [409, 409, 409])
  })

  it('shows its files, events and logs without its large fields being read', async () => {
    const { runId } = await build()

    const statuses: number[] = []
    for (const page of ['artifacts', 'checkpoints', 'events', 'logs'])
      statuses.push(await statusOf('GET', `/training/runs/${runId}/${page}`))

    assert.deepEqual(statuses, [200, 200, 200, 200])
  })

  it('adds its version to a model and removes it without its large fields being read', async () => {
    const { runId } = await build()
    const name = `model-${newId()}`

    assert.equal(await statusOf('POST', '/models', { name, job_id: runId }), 201)

    const { db } = on.api.database
    const model = await db.selectFrom('model').select('id').where('name', '=', name).executeTakeFirst()
    assert.equal(await statusOf('DELETE', `/models/${model?.id}`), 204)
  })

  it('is deleted with its version without its large fields being read', async () => {
    const { runId, versionId } = await build()

    assert.equal(await statusOf('DELETE', `/training/runs/${runId}`), 204)

    const { db } = on.api.database
    const versions = await db.selectFrom('model_version').select('id').where('id', '=', versionId).execute()
    assert.deepEqual(versions, [])
  })
})
