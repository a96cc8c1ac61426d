import assert from 'node:assert/strict'
import { findActiveSpaces } from '../../../../../db/repositories/cohorts/spaces.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { embeddingSpace, evaluate } from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('model spaces', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const version = async () => {
    const { accountId } = await api.account()
    return (await buildVersion(api.database.db, accountId)).id
  }
  const register = (id: string, ...spaces: object[]) =>
    evaluate(api, 'model-spaces', { model_config_id: id, spaces })

  it('are registered once, however often they are sent', async () => {
    const id = await version()

    const first = await register(id, embeddingSpace(4))
    const again = await register(id, embeddingSpace(4))

    assert.equal(first.status, 200)
    assert.deepEqual(again.body, first.body)
    assert.equal(first.body.generation, 1)
    assert.match(first.body.spaces[0].fingerprint, /^[0-9a-f]{64}$/)
  })

  it('form a new generation when they change, and planners see only the newest one', async () => {
    const id = await version()
    const before = await register(id, embeddingSpace(4))

    const { body } = await register(id, embeddingSpace(6), { name: 'input', role: 'accepts', kind: 'text' })

    assert.deepEqual([body.generation, body.replaced], [2, 1])
    const active = await findActiveSpaces(api.database.db, [id, newId()])
    assert.deepEqual(
      active.map(({ name, dimensions, model_config_id, status }) => [
        name,
        dimensions,
        model_config_id,
        status,
      ]),
      [
        ['input', null, id, 'active'],
        ['output', 6, id, 'active'],
      ],
    )
    assert.notEqual(body.spaces[0].space_id, before.body.spaces[0].space_id)
  })

  for (const [what, space, named] of [
    ['an embedding without its dimensions', embeddingSpace(4, { dimensions: undefined }), 'dimensions'],
    [
      'tokens without their tokenizer',
      { name: 'tokens', role: 'both', kind: 'tokens', dtype: 'i32' },
      'tokenizer_digest',
    ],
    [
      'a hidden state without its layer',
      embeddingSpace(4, { kind: 'hidden_state', tokenizer_digest: 'ab'.repeat(32) }),
      'layer',
    ],
    [
      'a cache without its engine',
      { name: 'kv', role: 'both', kind: 'kv_cache', dtype: 'f16', tokenizer_digest: 'ab'.repeat(32) },
      'engine',
    ],
    ['media without their types', { name: 'sound', role: 'accepts', kind: 'media' }, 'content_types'],
    ['a name with capital letters', embeddingSpace(4, { name: 'Output' }), 'name'],
  ] as const) {
    it(`reject ${what}, and report what is missing`, async () => {
      const { status, body } = await register(await version(), space)

      assert.equal(status, 422)
      assert.ok(
        body.detail.some(({ loc }: { loc: string[] }) => loc.includes(named)),
        JSON.stringify(body.detail),
      )
    })
  }

  it('reject an unknown model, and two spaces with the same name', async () => {
    const unknown = await register(newId(), embeddingSpace(4))
    const twice = await register(await version(), embeddingSpace(4), embeddingSpace(6))

    assert.deepEqual([unknown.status, unknown.body.detail[0].loc], [422, ['body', 'model_config_id']])
    assert.deepEqual([twice.status, twice.body.detail[0].loc], [422, ['body', 'spaces', 1, 'name']])
  })

  it('equal those of another model with same_as', async () => {
    const [encoder, consumer] = [await version(), await version()]
    const of = await register(encoder, embeddingSpace(4, { normalized: true }))
    const taking = (space: string) =>
      evaluate(api, 'model-spaces', {
        model_config_id: consumer,
        spaces: [{ name: 'answer', role: 'produces', kind: 'json' }],
        same_as: [{ name: 'input', role: 'accepts', model_config_id: encoder, space }],
      })

    const { status, body } = await taking('output')
    const wrong = await taking('outptu')

    assert.equal(status, 200, JSON.stringify(body))
    const input = body.spaces.find(({ name }: { name: string }) => name === 'input')
    assert.equal(input.fingerprint, of.body.spaces[0].fingerprint)
    const spaces = await findActiveSpaces(api.database.db, [consumer])
    assert.equal(spaces.find(({ name }) => name === 'input')?.role, 'accepts')
    assert.equal(wrong.status, 422)
    assert.deepEqual(wrong.body.detail[0].loc, ['body', 'same_as', 0, 'space'])
    assert.match(wrong.body.detail[0].msg, /it has: output/)
  })

  it('stay revoked until they are registered again; a repeat returns the first revocation', async () => {
    const id = await version()
    await register(id, embeddingSpace(4))

    const first = await evaluate(api, `model-spaces/${id}:revoke`, { reason: 'broken weights' })
    const again = await evaluate(api, `model-spaces/${id}:revoke`, { reason: 'another word' })
    const whileRevoked = await findActiveSpaces(api.database.db, [id])
    const reregistered = await register(id, embeddingSpace(4))
    const later = await evaluate(api, `model-spaces/${id}:revoke`, { reason: 'once more' })

    assert.deepEqual([first.status, first.body.status, first.body.reason], [200, 'revoked', 'broken weights'])
    assert.deepEqual(again.body, first.body)
    assert.deepEqual(whileRevoked, [])
    assert.equal(reregistered.body.generation, 2)
    assert.equal(later.body.reason, 'once more')
  })

  it('of an unknown model answer 404 to a revocation', async () => {
    assert.equal((await evaluate(api, `model-spaces/${newId()}:revoke`, { reason: 'x' })).status, 404)
  })
})
