import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { buildCohort, buildEdge, buildStage } from '../support/builders/cohorts.ts'
import { type AnyBody, startApi, type TestApi } from '../support/servers/api.ts'
import { signedNode } from '../support/servers/signed-node.ts'

const SPEC = JSON.stringify({
  stage_id: 'a', operation: 'infer', input: {}, required: true, fallbacks: [], max_attempts: 1, timeout_s: 60,
})

describe('claims of stages, as a breaker makes them', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  async function called(model_key: string, input: object = {}, to_path?: string) {
    const { db } = api.database
    const { accountId } = await api.account()
    const node = await signedNode(api, newId())
    const endpoint = await buildEndpoint(db, accountId)
    const cohort = await buildCohort(db, accountId, { input: JSON.stringify(input) })
    const stage = await buildStage(db, cohort, {
      name: 'a', status: 'called', node_id: node.nodeId, specification: SPEC, endpoint_id: endpoint.id, model_key,
    })
    if (to_path !== undefined)
      await buildEdge(db, [stage, stage], { from_stage_id: null, from_path: '/v', to_path, kind: 'json', state: 'consumed' })
    const claim = () => node.post(`/api/v1/cohorts/${cohort.id}/stages/${stage.id}:claim`, { lease_s: 60 })
    return { node, stage, cohort, claim }
  }

  it('answers a claim again whose first answer was lost, for a stage that needs no load', async () => {
    const { claim } = await called('tool:run_python')
    const first = await claim()
    assert.equal(first.status, 200, first.text)
    const again = await claim()
    assert.equal(again.status, 200, again.text)
    assert.equal(again.body.lease_token, first.body.lease_token)
  })

  it('answers a claim again whose first answer was lost, for a model that is loading', async () => {
    const { claim } = await called(`model-${newId()}`)
    const first = await claim()
    const again = await claim()
    assert.deepEqual([first.status, again.status], [200, 200], again.text)
  })

  for (const v of ['text', 7, null, [1]])
    it(`gives a node an object as input, though an edge writes ${JSON.stringify(v)} in place of all of it`, async () => {
      const { claim } = await called(`model-${newId()}`, { v }, '')
      const { status, body, text } = await claim()
      assert.equal(status, 200, text)
      assert.ok(typeof body.input === 'object' && body.input !== null && !Array.isArray(body.input), JSON.stringify(body.input))
    })
})

describe('plans, as a breaker makes them', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())
  const call = (path: string, body: object) =>
    api.call<AnyBody>('POST', `/api/v1${path}`, {
      key: caller.key,
      headers: { 'x-account-id': caller.accountId, 'x-user-id': 'someone' },
      body,
    })

  it('do not hold the loop of the gateway for places deep in long lists', async function () {
    this.timeout(60_000)
    const deep = '/1024'.repeat(198)
    const edges = Array.from({ length: 48 }, (_, i) => ({
      from: { stage_id: 'input', path: '/x' }, to: { stage_id: 'a', path: `/k${i}${deep}` },
    }))
    const started = performance.now()
    const { status } = await call('/cohorts:plan', { stages: [{ stage_id: 'a', endpoint_id: 'none' }], edges })
    const ms = performance.now() - started
    assert.ok(status === 200 || status === 422)
    assert.ok(ms < 1_000, `${Math.round(ms)} ms`)
  })

  it('do not ask the database thousands of times for one graph', async function () {
    this.timeout(60_000)
    const stages = Array.from({ length: 64 }, (_, i) => ({
      stage_id: `s${i}`, endpoint_id: `none-${i}`, fallbacks: [0, 1, 2, 3].map((j) => `none-${i}-${j}`),
    }))
    const started = performance.now()
    const { status } = await call('/cohorts:plan', { stages, edges: [] })
    const ms = performance.now() - started
    console.log('      plan of 64 stages with 4 fallbacks each', status, Math.round(ms), 'ms')
    assert.equal(status, 200)
  })

  for (const path of ['/cohorts:plan', '/cohorts:run'])
    it(`${path} refuses NUL in every text`, async () => {
      const plan = {
        name: 'a\u0000b', stages: [{ stage_id: 'a', endpoint_id: 'x\u0000', input: { 'k\u0000': '\ud800' } }], edges: [],
      }
      const { status, text } = await call(path, path.endsWith('plan') ? plan : { plan, input: { x: '\u0000' } })
      assert.equal(status, 422, text)
    })

  it('capabilities of an endpoint whose name has NUL', async () => {
    const { status, text } = await api.call<AnyBody>('GET', '/api/v1/cohorts/capabilities?endpoint_id=a%00b', {
      key: caller.key, headers: { 'x-account-id': caller.accountId },
    })
    assert.ok([404, 422].includes(status), text)
  })
})
