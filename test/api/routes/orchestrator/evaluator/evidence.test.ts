import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { findEvidence, lockEvidence } from '../../../../../db/repositories/cohorts/evidence.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildVersion } from '../../../../support/builders/build-endpoint.ts'
import {
  embeddingSpace,
  evaluate,
  evidenceBody,
  mapFile,
  safetensors,
} from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const DAY = 86_400_000

describe('evidence', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  async function encoder(dimensions: number, overrides: object = {}) {
    const { accountId } = await api.account()
    const { id } = await buildVersion(api.database.db, accountId)
    const { body } = await evaluate(api, 'model-spaces', {
      model_config_id: id,
      // Without this, models without files would share one digest.
      spaces: [
        embeddingSpace(dimensions, { weights_digest: id.replaceAll('-', '').repeat(2), ...overrides }),
      ],
    })
    return { id, space: body.spaces[0].space_id as string }
  }
  async function pair() {
    const [source, target] = [await encoder(4), await encoder(6)]
    return { source, target, ids: { source_space_id: source.space, target_space_id: target.space } }
  }
  const found = (ids: { source_space_id: string; target_space_id: string }) =>
    findEvidence(api.database.db, { sourceSpaceId: ids.source_space_id, targetSpaceId: ids.target_space_id })
  const register = (body: object) => evaluate(api, 'evidence', body)

  it('is stored with a copy of its map, and found by its spaces', async () => {
    const { ids } = await pair()

    const { status, body } = await register(evidenceBody(ids))

    assert.equal(status, 200)
    assert.deepEqual([body.status, body.score, body.supersedes], ['active', 0.95, null])
    const [row] = await found(ids)
    assert.deepEqual([row?.id, row?.status, row?.metric], [body.evidence_id, 'active', 'consumer_agreement'])
    const { body: stored } = await api.services.objects.get(row?.adapter?.object_key ?? '')
    assert.deepEqual(await buffer(stored), mapFile(4, 6))
  })

  it('applies to every pair of equal spaces', async () => {
    const { ids, source } = await pair()
    const digest = source.id.replaceAll('-', '').repeat(2)
    const twin = await encoder(4, { weights_digest: digest })
    await register(evidenceBody(ids))

    const rows = await found({ ...ids, source_space_id: twin.space })

    assert.equal(rows.length, 1)
  })

  it('is registered once for repeated requests, and superseded when its content differs', async () => {
    const { ids } = await pair()
    const body = evidenceBody(ids)
    const first = await register(body)

    const again = await register(body)
    const other = await register({ ...body, seed: 2 })
    const old = await register(body)

    assert.deepEqual(again.body, first.body)
    assert.equal(other.body.supersedes, first.body.evidence_id)
    assert.deepEqual(
      (await found(ids)).map(({ id }) => id),
      [other.body.evidence_id],
    )
    assert.deepEqual([old.status, old.body.error.details.status], [409, 'superseded'])
  })

  it('cannot be registered again once revoked, and counts as expired after its end date', async () => {
    const { ids } = await pair()
    const body = evidenceBody(ids)
    const { body: first } = await register(body)

    const revoked = await evaluate(api, `evidence/${first.evidence_id}:revoke`, { reason: 'wrong anchors' })
    const again = await evaluate(api, `evidence/${first.evidence_id}:revoke`, {
      reason: 'other',
      effect: 'drain',
    })
    const repeat = await register(body)

    assert.deepEqual(revoked.body.evidence_revoked, [first.evidence_id])
    assert.deepEqual(again.body, revoked.body)
    assert.deepEqual([repeat.status, repeat.body.error.details.status], [409, 'revoked'])
    assert.deepEqual(
      (await found(ids)).map(({ status }) => status),
      ['revoked'],
    )
    const { body: second } = await register({ ...body, seed: 5 })
    const { db } = api.database
    await db
      .updateTable('compatibility_evidence')
      .set({ valid_until: new Date(Date.now() - 1000) })
      .where('id', '=', second.evidence_id)
      .execute()
    const locked = await db.transaction().execute((trx) => lockEvidence(trx, second.evidence_id))
    assert.equal(locked?.status, 'expired')
  })

  it('ends when a model behind one of its spaces is revoked, and new evidence for that space gets 409', async () => {
    const { ids, target } = await pair()
    const { body: first } = await register(evidenceBody(ids))

    const { body } = await evaluate(api, `model-spaces/${target.id}:revoke`, { reason: 'withdrawn' })
    const refused = await register(evidenceBody(ids, { seed: 9 }))

    assert.deepEqual(body.evidence_revoked, [first.evidence_id])
    assert.deepEqual([refused.status, refused.body.error.details.field], [409, 'target_space_id'])
  })

  it('is superseded when its model changes, unless the space stays the same', async () => {
    const { ids, source } = await pair()
    await register(evidenceBody(ids))
    const digest = source.id.replaceAll('-', '').repeat(2)
    const registerSpaces = (...spaces: object[]) =>
      evaluate(api, 'model-spaces', { model_config_id: source.id, spaces })

    await registerSpaces(embeddingSpace(4, { weights_digest: digest }), {
      name: 'input',
      role: 'accepts',
      kind: 'text',
    })
    const kept = await found(ids)
    const { body } = await registerSpaces(embeddingSpace(5, { weights_digest: digest }))

    assert.equal(kept.length, 1)
    assert.deepEqual(await found({ ...ids, source_space_id: body.spaces[0].space_id }), [])
    assert.deepEqual(await found(ids), [])
    assert.equal((await register(evidenceBody(ids))).body.detail[0].loc.at(-1), 'source_space_id')
  })

  it('for spaces that nodes cannot map may declare them identical, but must not include a map', async () => {
    const forms = {
      hidden_state: embeddingSpace(4, { kind: 'hidden_state', layer: 2, tokenizer_digest: 'ab'.repeat(32) }),
      kv_cache: {
        kind: 'kv_cache',
        dtype: 'f16',
        tokenizer_digest: 'ab'.repeat(32),
        engine: { name: 'llamacpp', format: 'x', layers: 1, kv_heads: 1, head_dim: 4, rope: 'x' },
      },
    }
    for (const [kind, form] of Object.entries(forms)) {
      const space = { ...form, name: 'output', role: 'both' }
      const [source, target] = [await encoder(4, space), await encoder(4, space)]
      const ids = { source_space_id: source.space, target_space_id: target.space }
      const mapped = evidenceBody(ids, { file: mapFile(4, 4) })
      const refused = await register({ ...mapped, adapter: { ...mapped.adapter, output_dimensions: 4 } })
      assert.equal(refused.status, 422)
      const [fault] = refused.body.detail
      assert.deepEqual(fault.loc, ['body', 'adapter'])
      assert.match(fault.msg, new RegExp(`maps to embedding only, not to ${kind}`))
      const alike = await register(evidenceBody(ids, { relation: 'identity', adapter: null }))
      assert.equal(alike.status, 200, JSON.stringify(alike.body))
    }
  })

  const broken: [string, (base: ReturnType<typeof evidenceBody>) => object, string][] = [
    ['a score that is not the lower bound', (base) => ({ ...base, score: 0.96 }), 'score'],
    ['an estimate outside the interval', (base) => ({ ...base, estimate: 0.999 }), 'estimate'],
    [
      'a metric that is not significant',
      (base) => ({ ...base, null_model: { ...base.null_model, p_value: 0.2 } }),
      'p_value',
    ],
    [
      'a null model whose upper bound reaches the score',
      (base) => ({ ...base, null_model: { ...base.null_model, upper_95: 0.95 } }),
      'upper_95',
    ],
    [
      'a validity period of more than 180 days',
      (base) => ({ ...base, valid_until: new Date(Date.now() + 181 * DAY).toISOString() }),
      'valid_until',
    ],
    [
      'an end date in the past',
      (base) => ({ ...base, valid_until: new Date(Date.now() - DAY).toISOString() }),
      'valid_until',
    ],
    ['too few samples', (base) => ({ ...base, sample_count: 199 }), 'sample_count'],
    ['a missing map', (base) => ({ ...base, adapter: null }), 'adapter'],
    [
      'a map with different dimensions',
      (base) => ({
        ...base,
        ...evidenceBody(base, { file: mapFile(6, 4) }),
        adapter: {
          ...evidenceBody(base, { file: mapFile(6, 4) }).adapter,
          input_dimensions: 6,
          output_dimensions: 4,
        },
      }),
      'input_dimensions',
    ],
    ['an unknown space', (base) => ({ ...base, source_space_id: newId() }), 'source_space_id'],
    [
      'a file with a different digest',
      (base) => ({ ...base, adapter: { ...base.adapter, sha256: 'ab'.repeat(32) } }),
      'sha256',
    ],
    [
      'a file with a different size',
      (base) => ({ ...base, adapter: { ...base.adapter, size_bytes: 7 } }),
      'size_bytes',
    ],
    [
      'a missing file',
      (base) => ({ ...base, adapter: { ...base.adapter, uri: 's3://hearth/evaluator/none' } }),
      'uri',
    ],
    [
      'a file outside the evaluator folder',
      (base) => ({ ...base, adapter: { ...base.adapter, uri: 's3://hearth/datasets/x' } }),
      'uri',
    ],
    [
      'a file with different tensors',
      (base) => evidenceBody(base, { file: safetensors({ code: { shape: [1], values: [1] } }) }),
      'uri',
    ],
    [
      'a file that is not safetensors',
      (base) => evidenceBody(base, { file: Buffer.from('garbage, and more of it') }),
      'uri',
    ],
    [
      'numbers that are not finite',
      (base) =>
        evidenceBody(base, {
          file: safetensors({
            weight: { shape: [6, 4], values: Array.from({ length: 24 }, () => Number.NaN) },
            bias: { shape: [6], values: [0, 0, 0, 0, 0, 0] },
          }),
        }),
      'uri',
    ],
  ]
  for (const [what, change, field] of broken) {
    it(`is rejected with ${what}`, async () => {
      const { ids } = await pair()

      const { status, body } = await register(change(evidenceBody(ids)))

      assert.equal(status, 422, JSON.stringify(body))
      assert.ok(
        body.detail.some(({ loc }: { loc: string[] }) => loc.includes(field)),
        JSON.stringify(body.detail),
      )
      const kept: string[] = []
      for await (const { key } of api.services.objects.list('evidence/')) kept.push(key)
      const rows = await api.database.db.selectFrom('compatibility_evidence').select('id').execute()
      assert.ok(kept.length <= rows.length, 'a rejected file was left in storage')
    })
  }
})
