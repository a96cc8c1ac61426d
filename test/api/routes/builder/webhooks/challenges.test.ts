import assert from 'node:assert/strict'
import { sql } from 'kysely'
import {
  ENDPOINTS,
  ifMatch,
  WEBHOOK_BODY,
  WebhookRoutes,
} from '../../../../support/builders/webhook-routes.ts'

const PER_HOST = 4

describe('challenges to webhook destinations', () => {
  let on: WebhookRoutes
  before(async () => {
    on = await WebhookRoutes.start({ HEARTH_WEBHOOK_CHALLENGES: PER_HOST, HEARTH_WEBHOOK_COOLDOWN_S: 10 })
  })
  after(() => on?.api[Symbol.asyncDispose]())
  beforeEach(() => on.newAccount())

  const urlOn = (host: string, n = 0) => ({ ...WEBHOOK_BODY, url: `https://${host}/in?n=${n}` })
  /** Ages all verifications by this many seconds. */
  const later = (seconds: number) =>
    sql`update webhook_verification set created_at = created_at - make_interval(secs => ${seconds})`.execute(
      on.api.database.db,
    )
  const patch = async (path: string, change: object) => {
    const { headers } = await on.call('GET', path)
    return on.call('PATCH', path, change, ifMatch(headers['etag']))
  }
  const started = async () =>
    (
      await on.api.database.db
        .selectFrom('webhook_verification')
        .select('endpoint_id')
        .where('account_id', '=', on.accountId)
        .execute()
    ).length

  it('are sent to a destination at most every 10 s, whatever restarts them', async () => {
    const { path } = await on.create()

    for (const change of [{ url: WEBHOOK_BODY.url }, { url: 'https://other.hearth-user.com/' }]) {
      const { status, body, headers } = await patch(path, change)
      assert.deepEqual([status, body.error.code], [429, 'rate_limited'])
      const wait = Number(headers['retry-after'])
      assert.ok(wait > 0 && wait <= 10, `Retry-After ${wait}`)
    }
    assert.equal(await started(), 1)
    await patch(path, { enabled: false })
    assert.equal((await patch(path, { enabled: true })).status, 429)
    assert.equal(
      (await patch(path, { name: 'another name' })).status,
      200,
      'a change that sends no challenge must not be limited',
    )

    await later(11)
    assert.equal((await patch(path, { enabled: true })).status, 200)
  })

  it("are limited per host across all of an account's destinations, including deleted ones", async () => {
    for (let n = 0; n < PER_HOST; n++) {
      const { path, headers } = await on.create(urlOn('one.hearth-user.com', n))
      await on.call('DELETE', path, undefined, ifMatch(headers['etag']))
    }

    const refused = await on.call('POST', ENDPOINTS, urlOn('one.hearth-user.com', 9))
    assert.equal(refused.status, 429)
    assert.match(refused.body.error.message, /challenges an hour/)
    assert.equal((await on.call('POST', ENDPOINTS, urlOn('two.hearth-user.com'))).status, 201)

    await later(3_601)
    assert.equal((await on.call('POST', ENDPOINTS, urlOn('one.hearth-user.com', 9))).status, 201)
  })

  it('are limited per account across all hosts, without affecting other accounts', async () => {
    for (let n = 0; n < 3 * PER_HOST; n++) await on.create(urlOn(`h${n}.hearth-user.com`))

    assert.equal((await on.call('POST', ENDPOINTS, urlOn('last.hearth-user.com'))).status, 429)
    await on.newAccount()
    assert.equal((await on.call('POST', ENDPOINTS, urlOn('last.hearth-user.com'))).status, 201)
  })

  it('are never sent to a host name that no public resolver knows', async () => {
    for (const host of [
      'hooks.company-internal',
      'a.b.cluster',
      'svc.dmz',
      'router.fritz',
      'co.uk',
      'x.consul',
    ]) {
      const { status, body } = await on.call('POST', ENDPOINTS, urlOn(host))
      assert.equal(status, 422, host)
      assert.match(body.detail[0].msg, /public suffix/)
    }
    for (const host of ['hooks.hearth-user.co.uk', 'xn--bcher-kva.de', 'a.github.io'])
      assert.equal((await on.call('POST', ENDPOINTS, urlOn(host))).status, 201, host)
  })
})
