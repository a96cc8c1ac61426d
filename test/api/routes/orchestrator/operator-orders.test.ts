import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { newId } from '../../../../domain/ids.ts'
import { PUBLIC_LISTING } from '../../../support/builders/build-endpoint.ts'
import { createRun, readyDataset } from '../../../support/builders/training.ts'
import { type AnyBody, OPERATIONS_KEY } from '../../../support/servers/api.ts'
import { InferenceApi } from '../../../support/servers/inference-api.ts'
import { addModel, until } from '../../../support/servers/nodes/node.ts'
import { rawNode } from '../../../support/servers/nodes/raw-node.ts'
import { signedNode } from '../../../support/servers/nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'
const ADMIN = '/api/v1/admin'

describe('operator actions', function () {
  this.timeout(60_000)
  let on: InferenceApi
  before(async () => {
    on = await InferenceApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const order = (path: string, body?: object, headers?: Record<string, string>) =>
    on.api.call('POST', `${ADMIN}${path}`, {
      key: OPERATIONS_KEY,
      ...(body && { body }),
      ...(headers && { headers }),
    })
  const read = async (path: string, key = OPERATIONS_KEY): Promise<AnyBody> => {
    const { status, body, text } = await on.api.call('GET', path, { key })
    assert.equal(status, 200, text)
    return body
  }
  const audited = async (action: string, subject: string): Promise<AnyBody[]> =>
    (await read(`${ADMIN}/audit-log?action=${action}&subject_id=${subject}`)).entries

  describe('giving credits', () => {
    it("is reflected in the account's balance and ledger with the reason, and can be reversed", async () => {
      const { accountId, key } = await on.api.account()
      const path = `/accounts/${accountId}/credits`
      const endpoint = await on.endpointOver(await on.loadedModel(), {
        price_micro: 250_000,
        ...PUBLIC_LISTING,
      })

      const given = await order(path, { amount_credits: 10.5, reason: 'trial' })
      await on.infer(endpoint.id, { input: { instances: [1] } }, key)
      const taken = await order(path, { amount_credits: -0.25, reason: 'too much' })

      assert.equal(given.status, 201, given.text)
      assert.deepEqual(
        [given.body.amount_micro, given.body.balance.micro, taken.body.balance.credits],
        [10_500_000, 10_500_000, 10],
      )
      assert.equal((await read(`${BUILDER}/me`, key)).balance_credits, 10)
      const ledger = await read(`${BUILDER}/ledger`, key)
      assert.deepEqual(
        ledger.entries.map(({ kind, amount_micro, reason, task_id }: AnyBody) => [
          kind,
          amount_micro,
          reason,
          task_id !== null,
        ]),
        [
          ['credit', -250_000, 'too much', false],
          ['hold', -250_000, null, true],
          ['credit', 10_500_000, 'trial', false],
        ],
      )
      assert.deepEqual([ledger.balance.micro, ledger.period.spent_micro], [10_000_000, 250_000])
      const [first, second] = await Promise.all([
        read(`${BUILDER}/ledger?limit=2`, key),
        read(`${BUILDER}/ledger?limit=2`, key).then(({ next_cursor }) =>
          read(`${BUILDER}/ledger?limit=2&cursor=${next_cursor}`, key),
        ),
      ])
      assert.deepEqual([first.entries.length, second.entries.length], [2, 1])
      const { rows } = await sql<{ total: number }>`
        select sum(amount_micro)::bigint as total from ledger_line`.execute(on.api.database.db)
      assert.equal(rows[0]?.total, 0)
      const entries = await audited('giveAccountCredits', accountId)
      assert.deepEqual(
        entries.map(({ changes }) => [changes.amount_micro.to, changes.reason.to]),
        [
          [-250_000, 'too much'],
          [10_500_000, 'trial'],
        ],
      )
    })

    it('happens once per Idempotency-Key, and only for an existing account', async () => {
      const { accountId, key } = await on.api.account()
      const once = { 'idempotency-key': randomUUID() }
      const body = { amount_credits: 1, reason: 'once' }

      const answers = [
        await order(`/accounts/${accountId}/credits`, body, once),
        await order(`/accounts/${accountId}/credits`, body, once),
      ]

      assert.equal(answers[0]?.body.credit_id, answers[1]?.body.credit_id)
      assert.equal((await read(`${BUILDER}/me`, key)).balance_credits, 1)
      assert.equal((await order(`/accounts/${newId()}/credits`, body)).status, 404)
      for (const [field, wrong] of [
        ['amount_credits', { amount_credits: 0, reason: 'x' }],
        ['amount_credits', { amount_credits: '1', reason: 'x' }],
        ['reason', { amount_credits: 1, reason: '' }],
      ] as const) {
        const { status, body: fault } = await order(`/accounts/${accountId}/credits`, wrong)
        assert.equal(status, 422)
        assert.deepEqual(fault.error.details.detail?.[0]?.loc ?? fault.detail[0].loc, ['body', field])
      }
    })
  })

  describe('cancelling work', () => {
    it('ends a run of any account and records an event that the account sees', async () => {
      const { accountId, key } = await on.api.account()
      const runId = await createRun(on.api, key, { dataset_id: await readyDataset(on.api, accountId) })

      const { status, body } = await order(`/runs/${runId}:cancel`)
      const again = await order(`/runs/${runId}:cancel`)

      assert.deepEqual([status, body], [200, { run_id: runId, status: 'cancelled' }])
      assert.equal(again.status, 200)
      const { events } = await read(`${BUILDER}/training/runs/${runId}/events`, key)
      assert.deepEqual([events.at(-1).event_type, events.at(-1).detail], ['cancelled', 'by an operator'])
      const [entry, ...others] = await audited('cancelAccountRun', runId)
      assert.deepEqual(entry.changes.status, { from: 'pending', to: 'cancelled' })
      assert.deepEqual([entry.account_id, others], [accountId, []])
      assert.equal((await order(`/runs/${newId()}:cancel`)).status, 404)
    })

    it('ends a task of any account and refunds its price', async () => {
      const { accountId, key } = await on.api.account()
      const endpoint = await on.endpointOver(await on.loadedModel(), {
        price_micro: 1_000,
        ...PUBLIC_LISTING,
      })
      const queued = await on.infer(endpoint.id, { input: { instances: [1] }, sync: false }, key)
      const taskId = queued.body.task_id

      const { status, body } = await order(`/tasks/${taskId}:cancel`)

      assert.deepEqual([status, body], [200, { task_id: taskId, status: 'failed' }])
      assert.equal((await on.task(taskId, key)).body.error, 'cancelled by an operator')
      assert.equal((await read(`${BUILDER}/me`, key)).balance_credits, 0)
      const [entry] = await audited('cancelAccountTask', taskId)
      assert.deepEqual([entry.account_id, entry.changes.status.to], [accountId, 'failed'])
      assert.equal((await order(`/tasks/${taskId}:cancel`)).status, 409)
      assert.equal((await order(`/tasks/${newId()}:cancel`)).status, 404)
    })
  })

  describe('loading and evicting models', () => {
    const of = (modelKey: string, verb: string, nodeId = on.node.nodeId) =>
      order(`/nodes/${nodeId}/models/${modelKey}:${verb}`)
    const state = (modelKey: string) =>
      on.node.parts.models.report().find(({ model_key }) => model_key === modelKey)?.state
    const setDraining = async (verb: 'drain' | 'resume') => {
      await order(`/nodes/${on.node.nodeId}/${verb}`)
      const isDraining = () =>
        on.api.services.links.snapshot().find(({ node_id }) => node_id === on.node.nodeId)?.draining
      await until(() => isDraining() === (verb === 'drain'))
    }

    it('orders a load as a request does, and enqueues its workflow', async () => {
      const modelKey = await addModel(on.api, { name: 'wanted' })

      const { status, body } = await of(modelKey, 'load')

      assert.deepEqual([status, body.state], [202, 'cold'])
      const { db } = on.api.database
      const id = `load/${modelKey}/${on.node.nodeId}`
      const start = await db
        .selectFrom('workflow_start')
        .select('workflow')
        .where('workflow_id', '=', id)
        .executeTakeFirst()
      assert.equal(start?.workflow, 'modelLoad')
      await on.node.parts.models.load(modelKey)
      assert.equal((await of(modelKey, 'load')).status, 202)
      const entries = await audited('loadNodeModel', on.node.nodeId)
      assert.equal(entries[0].changes.loaded_model.to, modelKey)
    })

    it('rejects an unknown or unconnected node, an unknown model, and a node that cannot run the model', async () => {
      const modelKey = await addModel(on.api, { name: 'nowhere' })
      const other = await signedNode(on.api, 'silent')

      assert.equal((await of(modelKey, 'load', newId())).status, 404)
      assert.equal((await of('no-such-model', 'load')).status, 404)
      assert.match((await of(modelKey, 'load', other.nodeId)).body.error.message, /not connected/)
      const { db } = on.api.database
      await sql`update model_version set runtime_profile = 'huge' where model_key = ${modelKey}`.execute(db)
      assert.match((await of(modelKey, 'load')).body.error.message, /profile huge/)
      assert.equal((await of(modelKey, 'evict', newId())).status, 404)
      assert.equal((await of(modelKey, 'evict', other.nodeId)).status, 409)
    })

    it('frees the memory of an idle model, and reports why it does not evict one in use', async () => {
      const modelKey = await on.loadedModel()
      const use = on.node.parts.models.use(modelKey)

      const refused = await of(modelKey, 'evict')
      assert.equal(refused.status, 409)
      assert.match(refused.body.error.details.reason, /requests in progress: 1/)
      assert.equal(state(modelKey), 'running')
      use?.[Symbol.dispose]()
      const evicted = await of(modelKey, 'evict')

      assert.deepEqual([evicted.status, evicted.body.state], [200, 'evicted'])
      assert.equal(state(modelKey), 'evicted')
      await until(() => on.api.services.links.placement.count(modelKey).warm === 0)
      const entries = await audited('evictNodeModel', on.node.nodeId)
      assert.deepEqual(
        entries.slice(0, 4).map(({ changes }) => Object.keys(changes).find((name) => name !== 'reason')),
        ['evicted_model', 'ordered_eviction', 'refused_eviction', 'ordered_eviction'],
      )
      assert.equal(entries[2].changes.refused_eviction.to, modelKey)
      assert.match(entries[2].changes.reason.to, /requests in progress: 1/)
      assert.equal((await of(modelKey, 'evict')).status, 200)
    })

    it('contacts the node only after recording the order, and records a missing answer', async () => {
      const modelKey = await on.loadedModel()
      const held = Promise.withResolvers<void>()
      const locked = Promise.withResolvers<void>()
      const blocking = on.api.database.db.transaction().execute(async (trx) => {
        await sql`lock table audit_log in exclusive mode`.execute(trx)
        locked.resolve()
        await held.promise
      })
      await locked.promise
      const evicting = of(modelKey, 'evict')
      await sleep(500)
      const meanwhile = state(modelKey)
      held.resolve()
      await blocking
      assert.equal((await evicting).status, 200)
      assert.deepEqual([meanwhile, state(modelKey)], ['warm', 'evicted'])

      const silent = await rawNode(on.api.database.db)
      using link = await silent.link(on.api.baseUrl)
      await until(() => on.api.services.links.ownerOf(silent.nodeId) !== undefined)
      link.socket.on('message', () => link.socket.terminate())
      const lost = await of(modelKey, 'evict', silent.nodeId)

      assert.deepEqual([lost.status, lost.body.error.code], [409, 'conflict'])
      const [outcome, order] = await audited('evictNodeModel', silent.nodeId)
      assert.equal(outcome.changes.unanswered_eviction.to, modelKey)
      assert.match(outcome.changes.reason.to, /link/)
      assert.equal(order.changes.ordered_eviction.to, modelKey)
    })

    it('evicts a model in use from a draining node, and refuses to load one there', async () => {
      const modelKey = await on.loadedModel()
      using _use = on.node.parts.models.use(modelKey)
      await setDraining('drain')
      try {
        assert.match((await of(modelKey, 'load')).body.error.message, /draining/)

        // The node notices a moment after the gateway.
        await until(async () => (await of(modelKey, 'evict')).status === 200)

        assert.equal(state(modelKey), 'evicted')
      } finally {
        await setDraining('resume')
      }
    })

    it('refuses to evict a pinned model', async () => {
      const modelKey = await on.loadedModel()
      const endpoint = await on.endpointOver(modelKey)
      await on.api.call('PUT', `${ADMIN}/endpoints/${endpoint.id}/min-warm`, {
        key: OPERATIONS_KEY,
        body: { min_warm: 1 },
      })
      await until(() =>
        on.node.parts.models.report().some(({ model_key, pinned }) => model_key === modelKey && pinned),
      )

      assert.match((await of(modelKey, 'evict')).body.error.details.reason, /pinned/)
    })
  })
})
