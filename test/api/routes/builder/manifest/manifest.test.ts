import assert from 'node:assert/strict'
import * as endpointChangeRepository from '../../../../../db/repositories/endpoints/changes.ts'
import * as endpointRepository from '../../../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointChange } from '../../../../../db/repositories/endpoints/endpoints.ts'
import { newId } from '../../../../../domain/ids.ts'
import type { Manifest, ToolManifest } from '../../../../../schemas/tool.ts'
import { until } from '../../../../support/assertions/until.ts'
import {
  buildEndpoint,
  buildRun,
  buildVersion,
  PUBLIC_LISTING,
} from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const PATH = '/api/builder/v1/mcp/manifest'
const OPERATIONS = ['training.merge', 'training.retrain_on']

interface Account {
  accountId: string
  key: string
}

describe('GET /mcp/manifest (4.6)', () => {
  let api: TestApi
  let mine: Account
  let other: Account
  before(async () => {
    api = await startApi()
  })
  beforeEach(async () => {
    mine = await api.account()
    other = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())

  const manifest = async ({ key }: Account, etag?: string) => {
    const answer = await api.call<Manifest>('GET', PATH, {
      key,
      ...(etag && { headers: { 'if-none-match': etag } }),
    })
    return { ...answer, names: answer.body?.tools.map(({ name }) => name) }
  }
  const tool = async ({ key }: Account, slug: string) => {
    const { status, body } = await api.call<ToolManifest>('GET', `${PATH}/${slug}`, { key })
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }
  const namesOf = async (account: Account) =>
    (await manifest(account)).names.filter((name) => !OPERATIONS.includes(name))
  /** Builds an endpoint as a request would: every gateway is notified. */
  const build = async (overrides: Parameters<typeof buildEndpoint>[2] = {}, account = mine) => {
    const { db } = api.database
    const endpoint = await buildEndpoint(db, account.accountId, overrides)
    await db.transaction().execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [endpoint.id]))
    return endpoint
  }
  /** Waits until the gateway has processed all earlier changes. */
  const settled = async () => {
    const watcher = await api.account()
    const { name } = await build({}, watcher)
    await until(async () => (await namesOf(watcher)).includes(name))
  }
  const change = (id: string, changed: EndpointChange) =>
    api.database.db
      .transaction()
      .execute((trx) => endpointRepository.updateEndpoint(trx, id, changed, new Date()))

  it('always lists the operations, even without endpoints', async () => {
    const { status, body, names } = await manifest(mine)

    assert.equal(status, 200)
    const offered = names.filter((name) => OPERATIONS.includes(name))
    assert.deepEqual(offered, OPERATIONS)
    assert.deepEqual([body.server.name, body.server.vendor], ['hearth', 'Hearth'])
    assert.match(body.protocolVersion, /^\d{4}-\d\d-\d\d$/)
    const merge = await tool(mine, 'training.merge')
    assert.deepEqual(
      [merge.kind, merge.costHint, merge.latencyClass],
      ['operation', 'training_quota', 'minutes'],
    )
    assert.deepEqual(merge.inputSchema['required'], ['name'])
    const retrain = await tool(mine, 'training.retrain_on')
    assert.equal(retrain.latencyClass, 'long')
    assert.deepEqual(retrain.inputSchema['required'], ['job_name', 'model_config_id', 'dataset_id', 'base'])
    for (const { sideEffects, examples } of [merge, retrain]) {
      assert.ok(examples.length >= 2)
      for (const effect of ['creates_job', 'creates_model_version', 'consumes_training_quota'] as const)
        assert.ok(sideEffects.includes(effect))
    }
  })

  it("lists the account's own endpoints that accept requests, and approved public ones of other accounts", async () => {
    await build({ name: `${mine.accountId}-own`, visibility: 'private' })
    await build({ name: `${mine.accountId}-paused`, status: 'paused' })
    await build({ name: `${mine.accountId}-deleted`, deleted_at: new Date() })
    await build({ name: `${other.accountId}-private` }, other)
    await build(
      { name: `${other.accountId}-waiting`, visibility: 'public', review_status: 'pending_review' },
      other,
    )
    await build({ name: `${other.accountId}-offered`, ...PUBLIC_LISTING }, other)
    await build({ name: `${other.accountId}-old`, ...PUBLIC_LISTING, status: 'deprecated' }, other)
    const disabled = await buildVersion(api.database.db, mine.accountId, { lifecycle_status: 'disabled' })
    await build({ name: `${mine.accountId}-disabled`, version_id: disabled.id })
    const unusable = await buildVersion(api.database.db, mine.accountId, { unusable: 'no weights' })
    await build({ name: `${mine.accountId}-unusable`, version_id: unusable.id })
    await settled()

    assert.deepEqual(
      (await namesOf(mine)).toSorted(),
      [`${mine.accountId}-own`, `${other.accountId}-offered`, `${other.accountId}-old`].toSorted(),
    )
    assert.equal((await namesOf(other)).includes(`${mine.accountId}-own`), false)
    for (const hidden of ['private', 'waiting']) {
      const { status } = await api.call('GET', `${PATH}/${other.accountId}-${hidden}`, { key: mine.key })
      assert.equal(status, 404)
    }
    await change(
      (await endpointRepository.findEndpoint(api.database.db, `${other.accountId}-offered`))?.id ?? '',
      { deleted_at: new Date() },
    )
    await change(
      (await endpointRepository.findEndpoint(api.database.db, `${other.accountId}-old`))?.id ?? '',
      { deleted_at: new Date() },
    )
  })

  it('answers 304 while nothing visible has changed, and 200 soon after a change', async () => {
    const endpoint = await build({ description: 'first' })
    await settled()
    const { headers, body } = await manifest(mine)
    const etag = String(headers['etag'])

    assert.match(etag, /^W\/"[\w-]{22}"$/)
    assert.equal(body.etag, etag)
    assert.equal(headers['cache-control'], 'private, no-cache')
    const again = await manifest(mine, etag)
    assert.deepEqual([again.status, again.text, again.headers['etag']], [304, '', etag])
    assert.equal((await manifest(mine, `"other", ${etag}`)).status, 304)

    await build({ name: `${other.accountId}-of-another` }, other)
    await change(endpoint.id, { review_note: 'seen by nobody but the owner' })
    await settled()
    assert.equal((await manifest(mine, etag)).status, 304)

    await change(endpoint.id, { description: 'second' })
    await until(async () => (await manifest(mine, etag)).status === 200)
    const next = await manifest(mine)
    assert.notEqual(next.body.etag, etag)
    assert.equal(next.body.tools.find(({ name }) => name === endpoint.name)?.description, 'second')
  })

  it("keeps its ETag when a change is reverted, but not the tool's version", async () => {
    const endpoint = await build({ tags: ['a'] })
    await settled()
    const before = await tool(mine, endpoint.name)

    await change(endpoint.id, { tags: ['b'] })
    await until(async () => (await tool(mine, endpoint.name)).version === '1.0.1')
    await change(endpoint.id, { tags: ['a'] })
    await until(async () => (await tool(mine, endpoint.name)).version === '1.0.2')

    assert.deepEqual({ ...(await tool(mine, endpoint.name)), version: before.version }, before)
  })

  it('describes a tool with everything known about its endpoint', async () => {
    const { db } = api.database
    const run = await buildRun(db, mine.accountId, {
      hyperparameters: JSON.stringify({ target_column: 'price', epochs: 3 }),
    })
    const version = await buildVersion(db, mine.accountId, {
      job_id: run.id,
      model_config_id: 'tabular-regression',
      lifecycle_status: 'ready',
    })
    const long = `${'Estimates what a house costs. '.repeat(12)}`.trim()
    const endpoint = await build({
      version_id: version.id,
      display_name: 'House prices',
      description: long,
      base_model: 'tabular-regression',
      model_category: 'ml_classical',
      tags: ['houses'],
      price_micro: 50_000,
      latency_class: 'instant',
      proven: 'stable',
    })
    await settled()

    const described = await tool(mine, endpoint.name)

    assert.deepEqual(
      { ...described, description: '', examples: [] },
      {
        name: endpoint.name,
        displayName: 'House prices',
        version: '1.0.0',
        // One example is not enough for `stable`.
        stability: 'beta',
        kind: 'trained_model',
        category: 'tabular',
        tags: ['houses'],
        description: '',
        longDescription: long,
        inputSchema: { type: 'object' },
        outputSchema: { type: 'object' },
        examples: [],
        sideEffects: ['cost'],
        costHint: 'low',
        latencyClass: 'instant',
        annotations: { readOnly: true, idempotent: false, destructive: false, openWorld: false },
        lineage: {
          jobId: run.id,
          baseModel: 'tabular-regression',
          dataset: null,
          datasetDomain: null,
          architecture: 'tabular-regression',
          columns: { label_column: 'price' },
        },
        deprecation: null,
        links: { documentation: `/api/builder/v1/endpoints/${endpoint.name}` },
      },
    )
    assert.ok(described.description.length <= 200)
    assert.match(described.description, /costs\.\.\.$|costs\. .*\.\.\.$/)
    assert.equal(described.examples.length, 1)
  })

  it('shows other accounts only the public parts of a lineage', async () => {
    const { db } = api.database
    const run = await buildRun(db, other.accountId, {
      hyperparameters: JSON.stringify({ target_column: 'price' }),
    })
    const version = await buildVersion(db, other.accountId, { job_id: run.id })
    const endpoint = await build({ ...PUBLIC_LISTING, version_id: version.id, base_model: 'a-base' }, other)
    await settled()

    assert.equal((await tool(other, endpoint.name)).lineage?.jobId, run.id)
    assert.deepEqual((await tool(mine, endpoint.name)).lineage, {
      jobId: null,
      baseModel: 'a-base',
      dataset: null,
      datasetDomain: null,
      architecture: 'tabular-regression',
      columns: {},
    })
    await change(endpoint.id, { deleted_at: new Date() })
  })

  for (const [visibility, seen] of [
    ['private', { dataset: null, datasetDomain: null, columns: {} }],
    ['public', { dataset: 'homes', datasetDomain: 'tabular', columns: { label_column: 'price' } }],
  ] as const) {
    it(`shows other accounts ${visibility === 'public' ? 'a' : 'no'} dataset that is ${visibility}`, async () => {
      const { db } = api.database
      const dataset = await db
        .insertInto('dataset')
        .values({
          id: newId(),
          account_id: other.accountId,
          dataset_name: 'homes',
          description: '',
          status: 'ready',
          storage_format: 'csv',
          visibility,
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      const hyperparameters = JSON.stringify({ target_column: 'price' })
      const run = await buildRun(db, other.accountId, { hyperparameters, dataset_id: dataset.id })
      const version = await buildVersion(db, other.accountId, { job_id: run.id, dataset_id: dataset.id })
      const endpoint = await build({ ...PUBLIC_LISTING, version_id: version.id }, other)
      await settled()

      const whole = { dataset: 'homes', datasetDomain: 'tabular', columns: { label_column: 'price' } }
      const picked = async (account: Account) => {
        const { dataset: name, datasetDomain, columns } = (await tool(account, endpoint.name)).lineage ?? {}
        return { dataset: name, datasetDomain, columns }
      }
      assert.deepEqual(await picked(other), whole)
      assert.deepEqual(await picked(mine), seen)
      await change(endpoint.id, { deleted_at: new Date() })
    })
  }

  it('omits an endpoint with the name of an operation', async () => {
    const endpoint = await build({ name: 'training.merge' })
    await settled()

    assert.equal((await tool(mine, 'training.merge')).kind, 'operation')
    assert.equal((await manifest(mine)).names.filter((name) => name === 'training.merge').length, 1)
    await api.database.db.deleteFrom('endpoint').where('id', '=', endpoint.id).execute()
  })

  it('sends a manifest of many megabytes in full', async () => {
    const note = 'x'.repeat(1024 * 1024)
    for (let i = 0; i < 5; i++)
      await build({ input_schema: JSON.stringify({ type: 'object', 'x-note': note }) })

    const { names, body } = await manifest(mine)

    assert.equal(names.length, OPERATIONS.length + 5)
    assert.equal(body.tools.filter(({ inputSchema }) => inputSchema['x-note'] === note).length, 5)
  })

  it('answers 404 for a tool that does not exist', async () => {
    assert.equal((await api.call('GET', `${PATH}/no-such-tool`, { key: mine.key })).status, 404)
  })

  it('reflects a change whose record does not name the endpoints', async () => {
    const endpoint = await build({ description: 'first' })
    await settled()
    await tool(mine, endpoint.name)
    const { db } = api.database

    await db.transaction().execute(async (trx) => {
      await trx.updateTable('endpoint').set({ description: 'second' }).where('id', '=', endpoint.id).execute()
      await trx
        .updateTable('cache_version')
        .set((eb) => ({ version: eb('version', '+', 1) }))
        .where('name', '=', 'endpoint')
        .execute()
    })

    await until(async () => (await tool(mine, endpoint.name)).description === 'second')
  })
})
