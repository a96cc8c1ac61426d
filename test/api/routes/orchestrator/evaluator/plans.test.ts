import assert from 'node:assert/strict'
import type { PlanReason } from '../../../../../schemas/cohorts/plan.ts'
import { buildEndpoint, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { embeddingSpace, evaluate, evidenceBody } from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const DAY = 86_400_000

describe('a plan with vector hand-overs', () => {
  let api: TestApi
  let key: string
  let accountId: string
  before(async () => {
    api = await startApi()
    ;({ accountId, key } = await api.account())
  })
  after(() => api[Symbol.asyncDispose]())

  async function model(space: object) {
    const { db } = api.database
    const { id, model_key } = await buildVersion(db, accountId)
    const endpoint = await buildEndpoint(db, accountId, {
      version_id: id,
      model_key,
      task_type: 'embeddings',
    })
    const weights_digest = id.replaceAll('-', '').repeat(2)
    const { body } = await evaluate(api, 'model-spaces', {
      model_config_id: id,
      spaces: [{ weights_digest, ...space }],
    })
    return { id, endpoint: endpoint.id, space: body.spaces[0].space_id as string }
  }

  /** Returns the reasons that a plan gives for its only hand-over. */
  async function planReasons(
    from: { endpoint: string },
    to: { endpoint: string; fallbacks?: string[] },
  ): Promise<PlanReason[]> {
    const { status, body, text } = await api.call('POST', '/api/v1/cohorts:plan', {
      key,
      headers: { 'x-account-id': accountId },
      body: {
        stages: [
          { stage_id: 'from', endpoint_id: from.endpoint, operation: 'embed', input: { text: 'a' } },
          { stage_id: 'to', endpoint_id: to.endpoint, ...(to.fallbacks && { fallbacks: to.fallbacks }) },
        ],
        edges: [
          {
            from: { stage_id: 'from', path: '/embedding' },
            to: { stage_id: 'to', path: '/instances/0' },
            space: { source: 'output', target: 'input' },
          },
        ],
      },
    })
    assert.equal(status, 200, text)
    return body.reasons.filter(({ edge_id }: PlanReason) => edge_id)
  }

  const reasons = async (...sides: Parameters<typeof planReasons>) =>
    (await planReasons(...sides)).map(({ code }) => code)

  it('names the endpoints of both sides, or the fallback that replaces one', async () => {
    const from = await model(embeddingSpace(4))
    const to = await model(embeddingSpace(6, { name: 'input', role: 'accepts' }))
    const fallback = await model(embeddingSpace(4, { name: 'input', role: 'accepts' }))

    const [reason] = await planReasons(from, to)
    assert.match(
      reason?.message ?? '',
      new RegExp(
        `"output" of "endpoint-${from.endpoint}" and "input" of "endpoint-${to.endpoint}" are different`,
      ),
    )
    await evaluate(api, 'evidence', evidenceBody({ source_space_id: from.space, target_space_id: to.space }))
    const [ofFallback] = await planReasons(from, { ...to, fallbacks: [fallback.endpoint] })
    assert.match(ofFallback?.message ?? '', new RegExp(`"input" of "${fallback.endpoint}" are different`))
  })

  it('reports evidence that is missing, expired or revoked', async () => {
    const from = await model(embeddingSpace(4))
    const to = await model(embeddingSpace(6, { name: 'input', role: 'accepts' }))
    const ids = { source_space_id: from.space, target_space_id: to.space }

    const before = await reasons(from, to)
    const { body } = await evaluate(api, 'evidence', evidenceBody(ids))
    const during = await reasons(from, to)
    await api.database.db
      .updateTable('compatibility_evidence')
      .set({ valid_until: new Date(Date.now() - DAY) })
      .where('id', '=', body.evidence_id)
      .execute()
    const expired = await reasons(from, to)
    await evaluate(api, `evidence/${body.evidence_id}:revoke`, { reason: 'wrong' })
    const revoked = await reasons(from, to)

    assert.deepEqual(
      [before, during, expired, revoked],
      [['evidence_missing'], [], ['evidence_expired'], ['evidence_revoked']],
    )
  })

  it('ignores evidence, accepted by older versions, whose map no node can apply', async () => {
    const kind = { kind: 'hidden_state', layer: 2, tokenizer_digest: 'ab'.repeat(32) }
    const from = await model(embeddingSpace(4, kind))
    const to = await model(embeddingSpace(4, { ...kind, name: 'input', role: 'accepts' }))
    const ids = { source_space_id: from.space, target_space_id: to.space }
    const { body } = await evaluate(
      api,
      'evidence',
      evidenceBody(ids, { relation: 'identity', adapter: null }),
    )
    const feeds = async () =>
      (
        await api.call('GET', `/api/v1/cohorts/capabilities?endpoint_id=${from.endpoint}`, {
          key,
          headers: { 'x-account-id': accountId },
        })
      ).body.feeds.length

    const before = [await reasons(from, to), await feeds()]
    await api.database.db
      .updateTable('compatibility_evidence')
      .set({
        adapter: JSON.stringify({
          ...evidenceBody(ids).adapter,
          object_key: `evidence/${body.evidence_id}/adapter.safetensors`,
        }),
      })
      .where('id', '=', body.evidence_id)
      .execute()

    // No node hands over hidden states yet.
    const never = 'operation_not_supported'
    assert.deepEqual(
      [before, await reasons(from, to), await feeds()],
      [[[never], 1], ['evidence_missing'], 0],
    )
  })

  it('needs no evidence between equal spaces', async () => {
    const weights_digest = 'ab'.repeat(32)
    const from = await model(embeddingSpace(4, { weights_digest }))
    const to = await model(embeddingSpace(4, { weights_digest, name: 'input', role: 'accepts' }))

    assert.deepEqual(await reasons(from, to), [])
  })
  it('rejects a fallback that cannot accept the vectors, until there is evidence', async () => {
    const from = await model(embeddingSpace(4))
    const to = await model(embeddingSpace(6, { name: 'input', role: 'accepts' }))
    const spare = await model(embeddingSpace(6, { name: 'input', role: 'accepts' }))
    const register = (space: string) =>
      evaluate(api, 'evidence', evidenceBody({ source_space_id: from.space, target_space_id: space }))
    await register(to.space)
    const both = { ...to, fallbacks: [spare.endpoint] }

    const before = await reasons(from, both)
    await register(spare.space)

    assert.deepEqual([before, await reasons(from, both)], [['evidence_missing'], []])
  })
})
