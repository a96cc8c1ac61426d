import assert from 'node:assert/strict'
import { buildEndpoint, buildRun, buildVersion } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

type Schema = Record<string, unknown>

const chain = (depth: number, step: (next: Schema) => Schema, last: Schema): Schema => ({
  type: 'object',
  properties: { x: { $ref: '#/$defs/s0' } },
  $defs: Object.fromEntries(
    Array.from({ length: depth }, (_, i) => [
      `s${i}`,
      i === depth - 1 ? last : step({ $ref: `#/$defs/s${i + 1}` }),
    ]),
  ),
})
const nested = (levels: number): unknown => (levels === 0 ? 'leaf' : { a: nested(levels - 1) })

describe('schemas that take too long to compile or check (4.4, 4.5)', () => {
  let api: TestApi
  let tenant: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    tenant = await api.account()
    other = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Returns the longest response time of another account during `work`. */
  async function worstOfOthers(work: Promise<unknown>): Promise<number> {
    let isOver = false
    const over = work.finally(() => (isOver = true))
    let worst = 0
    while (!isOver) {
      const from = performance.now()
      const { status } = await api.call('GET', '/api/builder/v1/endpoints', { key: other.key })
      assert.equal(status, 200)
      worst = Math.max(worst, performance.now() - from)
    }
    await over
    return worst
  }

  const register = async (body: object) => {
    const run = await buildRun(api.database.db, tenant.accountId)
    await buildVersion(api.database.db, tenant.accountId, { job_id: run.id })
    return api.call('POST', `/api/builder/v1/training/runs/${run.id}/register-for-inference`, {
      key: tenant.key,
      body,
    })
  }

  it('are rejected with the name of their field, without delaying other accounts', async () => {
    const bodies = [
      { input_schema: chain(26, (next) => ({ oneOf: [next, next] }), { type: 'number' }) },
      { output_schema: chain(24, (next) => ({ allOf: [next], not: { not: next } }), {}) },
      { input_schema: chain(2, () => ({ anyOf: [{ $ref: '#/$defs/s0' }] }), {}) },
      {
        input_schema: chain(
          30,
          (next) => ({ anyOf: [{ properties: { a: next } }, { properties: { a: next } }] }),
          { type: 'number' },
        ),
        example_input: { x: nested(40) },
      },
    ]
    let refusals: { status: number; body: { detail: { loc: string[] }[] } }[] = []
    const worst = await worstOfOthers(
      Promise.all(bodies.map((body, i) => register({ ...body, name: `costly-${i}` }))).then(
        (answers) => (refusals = answers),
      ),
    )

    for (const [i, { status, body }] of refusals.entries()) {
      assert.equal(status, 422)
      assert.deepEqual(body.detail[0]?.loc, ['body', i === 1 ? 'output_schema' : 'input_schema'])
    }
    assert.ok(worst < 1_500, `another account waited ${worst} ms`)
  })

  it('affect only their own users when they are already in the database', async () => {
    const schema = chain(28, (next) => ({ anyOf: [next, next] }), { type: 'number' })
    const deep = chain(
      40,
      (next) => ({ anyOf: [{ properties: { a: next } }, { properties: { a: next } }] }),
      { type: 'number' },
    )
    const rows = await Promise.all(
      [schema, deep].map((each) =>
        buildEndpoint(api.database.db, tenant.accountId, { input_schema: JSON.stringify(each) }),
      ),
    )
    const infer = (id: string) =>
      api.call('POST', `/api/builder/v1/endpoints/${id}/infer`, {
        key: tenant.key,
        body: { input: { x: nested(50) } },
      })
    let answers: { status: number; body: { detail: { loc: string[] }[] } }[] = []
    const worst = await worstOfOthers(
      Promise.all(rows.map(({ id }) => infer(id))).then((all) => (answers = all)),
    )

    for (const { status, body } of answers) {
      assert.equal(status, 422)
      assert.deepEqual(body.detail[0]?.loc, ['body', 'input'])
    }
    assert.ok(worst < 1_500, `another account waited ${worst} ms`)
  })
})
