import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { WEBHOOK_BODY, WebhookRoutes } from '../support/builders/webhook-routes.ts'
import { startApi } from '../support/servers/api.ts'

describe('hearth webhooks', () => {
  let on: WebhookRoutes
  let hearth: HearthRunner
  before(async () => {
    on = await WebhookRoutes.start()
    await on.newAccount()
    hearth = new HearthRunner({ HEARTH_BASE_URL: on.api.baseUrl, HEARTH_API_KEY: on.key })
  })
  after(async () => {
    hearth?.[Symbol.dispose]()
    await on?.api[Symbol.asyncDispose]()
  })

  const create = (...more: string[]) =>
    hearth.run(['webhooks', 'create', 'mine', '--url', WEBHOOK_BODY.url, ...more])

  it('creates an endpoint, shows its secret once, and tests, lists and removes the endpoint', async () => {
    const made = await create('--events', 'training.run.completed, training.run.failed')
    assert.equal(made.code, 0, made.err)
    const [secret = ''] = made.out.split('\n')
    const [, id = ''] = /endpoint ([-0-9a-f]{36}) is/.exec(made.out) ?? []
    const early = await hearth.run(['webhooks', 'test', id])
    await on.activate(id)
    const tested = await hearth.run(['webhooks', 'test', id])
    const listed = await hearth.run(['webhooks', 'ls'])
    const deliveries = await hearth.json(['webhooks', 'deliveries', '--endpoint', id])
    const test = deliveries.find((one: { event_type: string }) => one.event_type === 'webhook.test')
    const shown = await hearth.run(['webhooks', 'deliveries', test.delivery_id])
    const again = await hearth.run(['webhooks', 'redeliver', test.delivery_id])
    const repeated = await hearth.run(['webhooks', 'redeliver', test.delivery_id])
    const removed = await hearth.run(['webhooks', 'rm', id])

    assert.match(secret, /^whsec_/)
    assert.deepEqual([early.code, /conflict/.test(early.err)], [1, true], early.err)
    assert.match(tested.out, /^Delivery .* is pending/)
    assert.match(
      listed.out,
      /mine +https:\/\/hooks\.hearth-user\.com +active +training\.run\.completed, training\.run\.failed/,
    )
    assert.ok(!listed.out.includes(secret))
    assert.match(shown.out, /webhook\.test[^]*ATTEMPT +OUTCOME/)
    assert.match(again.out, /^Delivery .* is queued/, again.err)
    assert.match(repeated.out, /^Delivery .* is already in progress/, repeated.err)
    assert.match(removed.out, /^Deleted webhook endpoint /, removed.err)
    assert.deepEqual(await hearth.json(['webhooks', 'ls']), [])
  })

  it('reports that webhooks are disabled on a platform without the feature', async () => {
    await using api = await startApi()
    const { key } = await api.account()
    const { code, err } = await hearth.run(['webhooks', 'ls'], {
      env: { HEARTH_BASE_URL: api.baseUrl, HEARTH_API_KEY: key },
    })

    assert.equal(code, 1)
    assert.match(err, /webhooks/)
  })

  const ID = newId()
  for (const [args, pattern, exit] of [
    [['create', 'mine', '--url', 'http://x', '--events', 'training.run.completed'], /url: .*https/, 2],
    [['create', 'mine', '--url', WEBHOOK_BODY.url, '--events', 'a b'], /a list such as/, 2],
    [['create', 'mine', '--url', WEBHOOK_BODY.url, '--events', 'training.run.exploded'], /event_types/, 2],
    [['create', 'mine', '--url', WEBHOOK_BODY.url], /--events/, 2],
    [['test', 'x'], /"x" is not an id/, 2],
    [['test', ID], /not_found/, 1],
    [['deliveries', ID], /not_found/, 1],
    [['deliveries', '--status', 'lost'], /pending, delivering/, 2],
    [['redeliver', ID], /not_found/, 1],
  ] as const) {
    it(`explains what is wrong with "${args.join(' ').replaceAll(ID, 'ID')}"`, async () => {
      const { code, err } = await hearth.run(['webhooks', ...args])
      assert.equal(code, exit, err)
      assert.match(err, pattern)
    })
  }
})
