import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import { turnKeyOf } from '../../../../../platform/turn-key.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { buildCohort, buildEdge, buildStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const SPEC = {
  stage_id: 'a',
  operation: 'infer',
  required: true,
  fallbacks: [],
  max_attempts: 1,
  timeout_s: 60,
}

describe('stage claims', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  /** Dispatches a stage to a node; returns a function that claims it as this node. */
  async function called(model_key: string, { input = {} }: { input?: object } = {}) {
    const { db } = api.database
    const { accountId } = await api.account()
    const node = await signedNode(api, newId())
    const endpoint = await buildEndpoint(db, accountId)
    const cohort = await buildCohort(db, accountId, { input: JSON.stringify({ words: ['x'] }) })
    const stage = await buildStage(db, cohort, {
      name: 'a',
      status: 'called',
      node_id: node.nodeId,
      specification: JSON.stringify({ ...SPEC, input }),
      outline: JSON.stringify(SPEC),
      endpoint_id: endpoint.id,
      model_key,
    })
    const claim = () => node.post(`/api/v1/cohorts/${cohort.id}/stages/${stage.id}:claim`, { lease_s: 60 })
    return Object.assign(claim, { accountId, stage })
  }

  it('return the same lease when repeated, for a stage that needs no load', async () => {
    const claim = await called('tool:run_python')
    const first = await claim()
    assert.equal(first.status, 200, first.text)
    assert.equal(first.body.turn, turnKeyOf(claim.accountId))
    const again = await claim()
    assert.equal(again.status, 200, again.text)
    assert.equal(again.body.lease_token, first.body.lease_token)
  })

  it('return the same lease when repeated, for a model that is loading', async () => {
    const claim = await called(`model-${newId()}`)
    const first = await claim()
    const again = await claim()
    assert.deepEqual([first.status, again.status], [200, 200], again.text)
    assert.equal(first.body.turn, turnKeyOf(claim.accountId))
    assert.equal(again.body.lease_token, first.body.lease_token)
  })

  it("contain the stage's static input, and the run input that edges map into it", async () => {
    const claim = await called('tool:run_python', { input: { code: 'print(1)', more: [1, 2] } })
    const { db } = api.database
    const other = await buildStage(db, { id: claim.stage.cohort_id, account_id: claim.accountId })
    const fromRun = { from_stage_id: null, from_path: '/words/0' }
    await buildEdge(db, [claim.stage, claim.stage], { ...fromRun, to_path: '/text', template: '<{{value}}>' })
    await buildEdge(db, [other, claim.stage], { to_path: '/later', template: '[{{value}}]' })

    const { status, body, text } = await claim()
    assert.equal(status, 200, text)
    assert.deepEqual(body.input, { code: 'print(1)', more: [1, 2], text: '<x>' })
  })
})
