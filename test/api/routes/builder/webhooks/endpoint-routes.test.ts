import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as webhookEndpointRepository from '../../../../../db/repositories/webhooks/endpoints.ts'
import { newId } from '../../../../../domain/ids.ts'
import {
  DELIVERIES,
  ENDPOINTS,
  ifMatch,
  WEBHOOK_BODY,
  WebhookRoutes,
} from '../../../../support/builders/webhook-routes.ts'
import { startApi } from '../../../../support/servers/api.ts'

const DAY = 86_400_000

describe('webhook endpoint routes', () => {
  let on: WebhookRoutes
  before(async () => {
    on = await WebhookRoutes.start()
  })
  after(() => on?.api[Symbol.asyncDispose]())
  beforeEach(() => on.newAccount())

  it('show the secret only on create, and never the full URL', async () => {
    const { body, text, path, headers } = await on.create()

    assert.match(body.secret, /^whsec_[\w-]{43}$/)
    assert.equal(body.verification_status, 'pending_verification')
    assert.equal(body.url_origin, 'https://hooks.hearth-user.com')
    const one = await on.call('GET', path)
    const list = await on.call('GET', ENDPOINTS)
    assert.equal(one.headers['etag'], headers['etag'])
    assert.deepEqual(list.body.webhook_endpoints, [one.body])
    for (const shown of [text, one.text, list.text]) assert.ok(!shown.includes('token=hidden'))
    for (const shown of [one.text, list.text]) assert.ok(!shown.includes(body.secret))
  })

  it('store URL and secret encrypted in the database', async () => {
    const { id, body } = await on.create()
    const { db } = on.api.database

    const endpoint = await db.selectFrom('webhook_endpoint').selectAll().where('id', '=', id).execute()
    const secrets = await db.selectFrom('webhook_secret').selectAll().where('endpoint_id', '=', id).execute()
    const replies = await db.selectFrom('idempotency').selectAll().execute()

    const kept = [...endpoint, ...secrets, ...replies]
      .flatMap((row) => Object.values(row))
      .map((value) => (Buffer.isBuffer(value) ? value.toString('latin1') : JSON.stringify(value)))
      .join()
    assert.ok(!kept.includes('token=hidden'))
    assert.ok(!kept.includes(body.secret))
  })

  it('answer 428 to changes without If-Match and 412 to a stale one', async () => {
    const { path, headers } = await on.create()

    const blind = await on.call('PATCH', path, { name: 'a' })
    const first = await on.call('PATCH', path, { name: 'b' }, ifMatch(headers['etag']))
    const stale = await on.call('PATCH', path, { name: 'c' }, ifMatch(headers['etag']))
    const staleDelete = await on.call('DELETE', path, undefined, ifMatch(headers['etag']))
    const blindDelete = await on.call('DELETE', path)
    const deletion = await on.call('DELETE', path, undefined, ifMatch(first.headers['etag']))

    assert.deepEqual(
      [blind, first, stale, staleDelete, blindDelete, deletion].map(({ status }) => status),
      [428, 200, 412, 412, 428, 204],
    )
    assert.equal(stale.body.error.code, 'precondition_failed')
    assert.equal(first.body.name, 'b')
    assert.equal((await on.call('GET', path)).status, 404)
    assert.deepEqual((await on.call('GET', ENDPOINTS)).body.webhook_endpoints, [])
  })

  it('answer a repeated key with the same secret, and another body with 409', async () => {
    const headers = { 'idempotency-key': newId() }

    const first = await on.call('POST', ENDPOINTS, WEBHOOK_BODY, { headers })
    const again = await on.call('POST', ENDPOINTS, WEBHOOK_BODY, { headers })
    const other = await on.call('POST', ENDPOINTS, { ...WEBHOOK_BODY, name: 'other' }, { headers })

    assert.equal(again.text, first.text)
    assert.equal(again.headers['idempotency-replayed'], 'true')
    assert.deepEqual([other.status, other.body.error.code], [409, 'idempotency_key_reused'])
    assert.equal((await on.call('GET', ENDPOINTS)).body.webhook_endpoints.length, 1)
  })

  it('rotate the secret once for a repeated key, and change the ETag', async () => {
    const { path, id, body, headers: created } = await on.create()
    const headers = { 'idempotency-key': newId() }

    const first = await on.call('POST', `${path}/rotate-secret`, {}, { headers })
    const again = await on.call('POST', `${path}/rotate-secret`, {}, { headers })

    assert.equal(first.status, 200)
    assert.notEqual(first.body.secret, body.secret)
    assert.equal(again.body.secret, first.body.secret)
    assert.notEqual(first.headers['etag'], created['etag'])
    const secrets = await on.api.database.db
      .selectFrom('webhook_secret')
      .selectAll()
      .where('endpoint_id', '=', id)
      .orderBy('id')
      .execute()
    assert.equal(secrets.length, 2)
    const overlap = (secrets[0]?.expires_at?.getTime() ?? 0) - Date.now()
    assert.ok(Math.abs(overlap - DAY) < 60_000, 'the default overlap is one day')
    await on.call('POST', `${path}/rotate-secret`, { mode: 'emergency' })
    const revoked = await on.api.database.db
      .selectFrom('webhook_secret')
      .select('revoked')
      .where('endpoint_id', '=', id)
      .orderBy('id')
      .execute()
    assert.deepEqual(
      revoked.map((one) => one.revoked),
      [true, true, false],
    )
  })

  it('let at most two secrets sign: a second rotation ends the overlap of the first', async () => {
    const { path, id } = await on.create()
    const { db } = on.api.database

    for (let n = 0; n < 3; n++) await on.call('POST', `${path}/rotate-secret`, { mode: 'graceful' })

    const valid = await webhookEndpointRepository.validWebhookSecrets(db, id, new Date())
    assert.deepEqual(
      valid.map(({ expires_at }) => expires_at === null),
      [true, false],
    )
  })

  it('delete the secrets of a deleted endpoint', async () => {
    const { path, id, headers } = await on.create()

    await on.call('DELETE', path, undefined, ifMatch(headers['etag']))

    const { db } = on.api.database
    assert.deepEqual(await webhookEndpointRepository.validWebhookSecrets(db, id, new Date()), [])
  })

  it('queue one test event for a repeated key, and none for an unverified endpoint', async () => {
    const { path, id } = await on.create()
    const early = await on.call('POST', `${path}/test`, {})
    await on.activate(id)
    const headers = { 'idempotency-key': newId() }

    const first = await on.call('POST', `${path}/test`, {}, { headers })
    const again = await on.call('POST', `${path}/test`, {}, { headers })

    assert.deepEqual([early.status, first.status, again.status], [409, 202, 202])
    assert.equal(again.body.delivery_id, first.body.delivery_id)
    const deliveries = await on.listed()
    assert.deepEqual(
      deliveries.map((one: { event_type: string }) => one.event_type),
      ['webhook.test'],
    )
  })

  for (const [what, body] of [
    ['a lifecycle event', { ...WEBHOOK_BODY, event_types: ['webhook.test'] }],
    ['the verification event', { ...WEBHOOK_BODY, event_types: ['webhook.endpoint_verification'] }],
    ['no event types', { ...WEBHOOK_BODY, event_types: [] }],
    ['an unknown field', { ...WEBHOOK_BODY, secret: 'whsec_mine' }],
    ['plain HTTP', { ...WEBHOOK_BODY, url: 'http://hooks.hearth-user.com/' }],
    ['a port other than 443', { ...WEBHOOK_BODY, url: 'https://hooks.hearth-user.com:8443/' }],
    ['a literal IP address', { ...WEBHOOK_BODY, url: 'https://93.184.216.34/' }],
    ['a fragment', { ...WEBHOOK_BODY, url: 'https://hooks.hearth-user.com/#a' }],
    ['a user name', { ...WEBHOOK_BODY, url: 'https://me@hooks.hearth-user.com/' }],
    ['localhost', { ...WEBHOOK_BODY, url: 'https://localhost/' }],
  ] as const) {
    it(`answer 422 to ${what}`, async () => {
      const { status, body: errorBody } = await on.call('POST', ENDPOINTS, body)

      assert.equal(status, 422)
      assert.equal(errorBody.error.code, 'validation_failed')
    })
  }

  it('answer 409 beyond 20 endpoints per account, not counting deleted ones', async () => {
    const { id, path } = await on.create()
    await sql`
      insert into webhook_endpoint (id, account_id, name, url_sealed, url_origin, event_types, verification_status, secret_hint)
      select uuidv7(), account_id, name, url_sealed, url_origin, event_types, verification_status, secret_hint
      from webhook_endpoint, generate_series(1, 18) where id = ${id}`.execute(on.api.database.db)

    const [one, other] = await Promise.all([
      on.call('POST', ENDPOINTS, WEBHOOK_BODY),
      on.call('POST', ENDPOINTS, WEBHOOK_BODY),
    ])
    const { headers } = await on.call('GET', path)
    await on.call('DELETE', path, undefined, ifMatch(headers['etag']))

    assert.deepEqual(
      [one.status, other.status].toSorted((a, b) => a - b),
      [201, 409],
    )
    assert.equal((await on.call('POST', ENDPOINTS, WEBHOOK_BODY)).status, 201)
  })

  it('hide webhooks of other accounts', async () => {
    const { path, id } = await on.create()
    await on.activate(id)
    await on.emit()
    const [delivery] = await on.listed()
    const stranger = await on.api.account()

    for (const [method, at] of [
      ['GET', path],
      ['POST', `${path}/test`],
      ['POST', `${path}/rotate-secret`],
      ['GET', `${DELIVERIES}/${delivery.delivery_id}`],
      ['POST', `${DELIVERIES}/${delivery.delivery_id}/redeliver`],
    ] as const) {
      const { status } = await on.call(method, at, method === 'POST' ? {} : undefined, { key: stranger.key })
      assert.equal(status, 404, at)
    }
    assert.deepEqual((await on.call('GET', DELIVERIES, undefined, { key: stranger.key })).body.deliveries, [])
  })

  it('restart verification when the URL is set, even to the same value, or the endpoint is re-enabled', async () => {
    const { id, path } = await on.create()
    await on.activate(id)
    let { headers } = await on.call('GET', path)
    const patch = async (change: object) => {
      const answer = await on.call('PATCH', path, change, ifMatch(headers['etag']))
      ;({ headers } = answer)
      return answer.body.verification_status
    }

    assert.equal(await patch({ name: 'renamed' }), 'active')
    assert.equal(await patch({ url: WEBHOOK_BODY.url }), 'pending_verification')
    await on.activate(id)
    assert.equal(await patch({ enabled: false }), 'active')
    assert.equal(await patch({ enabled: true }), 'pending_verification')
    const windows = await on.api.database.db
      .selectFrom('webhook_verification')
      .selectAll()
      .where('endpoint_id', '=', id)
      .orderBy('destination_version')
      .execute()
    assert.deepEqual(
      windows.map(({ status }) => status),
      ['superseded', 'superseded', 'pending'],
    )
    assert.equal(new Set(windows.map(({ challenge }) => challenge)).size, 3)
  })

  it('answer 404 and are absent from the OpenAPI document unless the feature is on', async () => {
    await using plain = await startApi()
    const owner = await plain.account()

    const paths = [
      ENDPOINTS,
      `${ENDPOINTS}/${newId()}`,
      `${DELIVERIES}/${newId()}/redeliver`,
      '/api/v1/admin/webhooks/backlog',
    ]
    const answers = await Promise.all(paths.map((path) => plain.call('GET', path, { key: owner.key })))
    const document = await plain.call('GET', '/openapi.json')

    for (const [i, { status, body }] of answers.entries()) {
      assert.deepEqual([status, body.error.code], [404, 'not_found'])
      assert.equal(
        body.error.message,
        `there is no ${paths[i]}; its feature is off; an operator can turn it on with HEARTH_FEATURES=webhooks`,
      )
    }
    const names = [document.body.paths, document.body.components.schemas].flatMap(Object.keys)
    assert.deepEqual(
      names.filter((name) => /webhook/i.test(name)),
      [],
    )
  })
})
