import assert from 'node:assert/strict'
import { buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { embeddingSpace, evaluate, evidenceBody } from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('the registration of evidence', function () {
  this.timeout(60_000)
  let api: TestApi
  let ids: { source_space_id: string; target_space_id: string }
  before(async () => {
    api = await startApi()
    const spaces = []
    for (const dimensions of [4, 6]) {
      const { accountId } = await api.account()
      const { id } = await buildVersion(api.database.db, accountId)
      const { body } = await evaluate(api, 'model-spaces', {
        model_config_id: id,
        spaces: [embeddingSpace(dimensions, { weights_digest: id.replaceAll('-', '').repeat(2) })],
      })
      spaces.push(body.spaces[0].space_id as string)
    }
    ids = { source_space_id: spaces[0]!, target_space_id: spaces[1]! }
  })
  after(() => api[Symbol.asyncDispose]())

  for (const uri of [
    's3://hearth/evaluator/../tasks/x',
    's3://hearth/evaluator/',
    's3://hearth/evaluator',
    's3://hearth/evaluator//etc/passwd',
    `s3://hearth/evaluator/${'a'.repeat(1_500)}`,
    's3://hearth/evaluator/a\u0000b',
    'http://169.254.169.254/latest',
    'file:///etc/passwd',
    'data:;base64,%%%',
    'data:text/plain,hello',
  ])
    it(`is rejected for the address ${uri.slice(0, 50)}`, async () => {
      const body = evidenceBody(ids)
      const { status, text } = await evaluate(api, 'evidence', { ...body, adapter: { ...body.adapter, uri } })
      assert.equal(status, 422, text.slice(0, 300))
    })

  for (const valid_until of [
    '2026-11-31T00:00:00Z',
    '2027-01-01T24:00:00Z',
    '2027-01-01T23:59:60Z',
    '9999-12-31T00:00:00Z',
    '0000-01-01T00:00:00Z',
  ])
    it(`is rejected with valid_until ${valid_until}`, async () => {
      const { status, text } = await evaluate(api, 'evidence', { ...evidenceBody(ids), valid_until })
      assert.equal(status, 422, text.slice(0, 300))
    })

  for (const [name, more] of Object.entries({
    'a huge seed': { seed: 2 ** 53 },
    'a huge sample count': { sample_count: 1e300 },
    'huge diagnostics': { diagnostics: { kl: 1e308 } },
  }))
    it(`never causes a 500 for ${name}`, async () => {
      const { status, text } = await evaluate(api, 'evidence', { ...evidenceBody(ids), ...more })
      assert.ok(status < 500, text.slice(0, 300))
    })

  it('accepts twenty concurrent requests for one pair, and keeps the evidence of only one active', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, seed) => evaluate(api, 'evidence', { ...evidenceBody(ids), seed })),
    )
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
    const active = await api.database.db
      .selectFrom('compatibility_evidence')
      .select('id')
      .where('status', '=', 'active')
      .execute()
    assert.equal(active.length, 1)
  })
})
