import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { NewEndpoint } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { until } from '../../../../support/assertions/until.ts'
import { buildEndpoint, PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'

describe('a deprecated endpoint (2.10, 9.4)', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    ;[mine, other] = [await api.account(), await api.account()]
  })
  after(() => api[Symbol.asyncDispose]())

  const build = (overrides: Partial<NewEndpoint> = {}, account = mine) =>
    buildEndpoint(api.database.db, account.accountId, overrides)
  const patch = (id: string, body: object) =>
    api.call('PATCH', `${BUILDER}/endpoints/${id}`, { key: mine.key, body })
  const read = async (id: string) => {
    const { status_code, replaced_by, deprecated_at } = await api
      .call('GET', `${BUILDER}/endpoints/${id}`, { key: mine.key })
      .then(({ status, body }) => ({ ...body, status_code: status }))
    assert.equal(status_code, 200)
    return { replaced_by, deprecated_at }
  }
  const toolOf = async (slug: string) =>
    (await api.call('GET', `${BUILDER}/mcp/manifest/${slug}`, { key: mine.key })).body

  it('shows its replacement, set by name or by id, in the endpoint and in the manifest', async () => {
    const [old, next] = [await build(), await build()]

    for (const reference of [next.id, next.name, next.name.toUpperCase()]) {
      const { status, body } = await patch(old.id, { status: 'deprecated', replaced_by: reference })
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual([body.status, body.replaced_by], ['deprecated', next.name])
      assert.ok(Date.now() - Date.parse(body.deprecated_at) < 60_000)
    }
    const { deprecated_at } = await read(old.id)
    await until(async () => (await toolOf(old.name)).deprecation !== null)
    assert.deepEqual((await toolOf(old.name)).deprecation, {
      deprecatedAt: deprecated_at,
      replacedBy: next.name,
    })
    assert.equal((await toolOf(next.name)).deprecation, null)
  })

  it('can be changed while its replacement is being deleted: neither request fails because of the other', async () => {
    const [old, next] = [await build(), await build()]
    await patch(old.id, { status: 'deprecated', replaced_by: next.name })
    const { db } = api.database
    const waiting = async (count: number) => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
      return rows[0]?.n === count
    }

    const { deletion, change } = await db.transaction().execute(async (trx) => {
      await trx.selectFrom('endpoint').select('id').where('id', '=', next.id).forUpdate().execute()
      // The deletion has locked the replacement and is waiting for the deprecated endpoint, which the change has
      // locked.
      const deleting = api.call('DELETE', `${BUILDER}/endpoints/${next.id}`, { key: mine.key })
      await until(() => waiting(1))
      const changing = patch(old.id, { replaced_by: next.name })
      await until(() => waiting(2))
      return { deletion: deleting, change: changing }
    })

    assert.equal((await deletion).status, 204)
    assert.ok([200, 422].includes((await change).status), (await change).text)
    assert.equal((await read(old.id)).replaced_by, null)
  })

  it("is never its replacement's own replacement: of two concurrent requests, one wins and the other gets 422", async () => {
    const [one, two] = [await build(), await build()]
    const deprecate = (endpoint: string, replaced_by: string) =>
      patch(endpoint, { status: 'deprecated', replaced_by })

    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all([deprecate(one.id, two.name), deprecate(two.id, one.name)])
      const statuses = answers.map(({ status }) => status)
      assert.equal(Math.min(...statuses), 200)
      assert.equal(Math.max(...statuses), 422)
      for (const { id } of [one, two]) await patch(id, { status: 'active' })
    }
  })

  it('keeps its date and replacement through other changes, and loses both when reactivated', async () => {
    const [old, next] = [await build(), await build({ ...PUBLIC_LISTING }, other)]
    const first = await patch(old.id, { status: 'deprecated', replaced_by: next.name })

    await patch(old.id, { description: 'old' })
    await patch(old.id, { status: 'deprecated' })
    const { replaced_by, deprecated_at } = first.body
    assert.deepEqual(await read(old.id), { replaced_by, deprecated_at })
    assert.equal(replaced_by, next.name)

    await patch(old.id, { replaced_by: null })
    assert.deepEqual(await read(old.id), { replaced_by: null, deprecated_at })
    await patch(old.id, { replaced_by: next.id })
    await patch(old.id, { status: 'active' })
    assert.deepEqual(await read(old.id), { replaced_by: null, deprecated_at: null })
  })

  it('still accepts requests and stays in the manifest', async () => {
    const old = await build()
    await patch(old.id, { status: 'deprecated' })

    const { status, body } = await api.call('POST', `${BUILDER}/endpoints/${old.id}/infer:async`, {
      key: mine.key,
      body: { input: { x: 1 } },
    })
    assert.equal(status, 202, JSON.stringify(body))
    await until(async () => (await toolOf(old.name)).deprecation?.replacedBy === null)
  })

  it('rejects a replacement that is deprecated, that its owner may not use, or that is the endpoint itself', async () => {
    const old = await build()
    const foreign = await build({}, other)
    const waiting = await build({ visibility: 'public', review_status: 'pending_review' }, other)
    const deleted = await build({ deleted_at: new Date() })
    const outdated = await build({ status: 'deprecated' })

    for (const replaced_by of [
      foreign.name,
      foreign.id,
      waiting.name,
      deleted.name,
      outdated.name,
      old.name,
      old.id,
      newId(),
      'nothing',
      '',
    ]) {
      const { status, body } = await patch(old.id, { status: 'deprecated', replaced_by })
      assert.equal(status, 422, replaced_by)
      assert.deepEqual(body.detail[0].loc, ['body', 'replaced_by'], replaced_by)
    }
    const next = await build()
    for (const change of [{ replaced_by: next.name }, { status: 'paused', replaced_by: next.name }]) {
      const { status, body } = await patch(old.id, change)
      assert.equal(status, 422)
      assert.deepEqual(body.detail[0].loc, ['body', 'replaced_by'])
    }
    assert.deepEqual(await read(old.id), { replaced_by: null, deprecated_at: null })
  })

  it('loses its replacement when the replacement is deleted', async () => {
    const [old, next] = [await build(), await build()]
    await patch(old.id, { status: 'deprecated', replaced_by: next.name })

    const { status } = await api.call('DELETE', `${BUILDER}/endpoints/${next.id}`, { key: mine.key })

    assert.equal(status, 204)
    assert.equal((await read(old.id)).replaced_by, null)
    await until(async () => (await toolOf(old.name)).deprecation?.replacedBy === null)
  })

  it('never refers to a deleted replacement, whichever of two requests comes first', async () => {
    for (let round = 0; round < 10; round++) {
      const [old, next] = [await build(), await build()]
      const [patched, deleted] = await Promise.all([
        patch(old.id, { status: 'deprecated', replaced_by: next.name }),
        api.call('DELETE', `${BUILDER}/endpoints/${next.id}`, { key: mine.key }),
      ])

      // When two requests deadlock, one of them gets a temporary error.
      assert.ok([200, 422, 503].includes(patched.status), patched.text)
      assert.ok([204, 503].includes(deleted.status), deleted.text)
      if (deleted.status === 204) assert.equal((await read(old.id)).replaced_by, null)
    }
  })
})

describe('additional examples of an endpoint (2.10)', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    mine = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())
  const NUMBER = JSON.stringify({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] })
  const build = () =>
    buildEndpoint(api.database.db, mine.accountId, {
      input_schema: NUMBER,
      output_schema: NUMBER,
      example_input: '{"n":1}',
      example_output: '{"n":2}',
    })
  const patch = (id: string, body: object) =>
    api.call('PATCH', `${BUILDER}/endpoints/${id}`, { key: mine.key, body })
  const example = (input: object, output: object = { n: 1 }) => ({
    name: 'one',
    description: '',
    input,
    output,
  })

  it('are stored, shown and part of the manifest', async () => {
    const { id, name } = await build()

    const { status, body } = await patch(id, { examples: [example({ n: 3 })] })

    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(body.examples, [example({ n: 3 })])
    const { body: tool } = await api.call('GET', `${BUILDER}/mcp/manifest/${name}`, { key: mine.key })
    assert.deepEqual(tool.examples.at(-1), example({ n: 3 }))
    assert.equal(tool.examples.length, 2)
  })

  it('must match the schemas, including later ones', async () => {
    const { id } = await build()

    const wrong = await patch(id, {
      examples: [example({ n: 1 }), example({ n: 'x' }), example({ n: 1 }, {})],
    })
    assert.equal(wrong.status, 422)
    assert.deepEqual(
      wrong.body.detail.map(({ loc }: { loc: unknown[] }) => loc.slice(0, 4)),
      [
        ['body', 'examples', 1, 'input'],
        ['body', 'examples', 2, 'output'],
      ],
    )
    assert.equal((await patch(id, { examples: [example({ n: 3 })] })).status, 200)
    const later = await patch(id, {
      input_schema: { type: 'object', properties: { n: { type: 'number', maximum: 2 } } },
    })
    assert.equal(later.status, 422)
    assert.deepEqual(later.body.detail[0].loc.slice(0, 4), ['body', 'examples', 0, 'input'])
    assert.equal(
      (await patch(id, { examples: Array.from({ length: 9 }, () => example({ n: 1 })) })).status,
      422,
    )
  })
})
