import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

const stage = (stage_id: string, endpoint_id: string, more: object = {}) => ({
  stage_id,
  endpoint_id,
  ...more,
})
const edge = (from: string, to: string, path = '/value', more: object = {}) => ({
  from: { stage_id: from },
  to: { stage_id: to, path, ...more },
})

describe('cohort plans', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let endpoint: string
  before(async () => {
    api = await startApi()
    caller = await api.account()
    endpoint = (await buildEndpoint(api.database.db, caller.accountId)).id
  })
  after(() => api?.[Symbol.asyncDispose]())

  const call = (path: string, body: object, { accountId, key } = caller) =>
    api.call<AnyBody>('POST', `/api/v1${path}`, {
      key,
      headers: { 'x-account-id': accountId, 'x-user-id': 'someone' },
      body,
    })
  const reasons = async (plan: object): Promise<string[]> => {
    const { status, body } = await call('/cohorts:plan', plan)
    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.feasible, false)
    return [...new Set<string>(body.reasons.map(({ code }: AnyBody) => code))].toSorted()
  }

  it('are made one at a time per account, without delaying other accounts', async () => {
    const other = await api.account()
    const plan = { stages: [stage('a', endpoint)], edges: [] }
    const turn = await api.services.longAnswers.take(caller.accountId, new AbortController().signal)
    let isAnswered = false
    const waiting = call('/cohorts:plan', plan).then((answer) => {
      isAnswered = true
      return answer
    })
    assert.equal((await call('/cohorts:plan', plan, other)).status, 200)
    assert.equal(isAnswered, false)
    turn[Symbol.dispose]()
    assert.equal((await waiting).status, 200)
  })

  it('are limited per account while they have not expired', async () => {
    const { db } = api.database
    const owner = await api.account()
    const plan = { stages: [stage('a', endpoint)], edges: [] }
    await sql`insert into cohort_plan (id, account_id, request, plan, feasible, expires_at)
      select gen_random_uuid(), ${owner.accountId}::uuid, '{}', '{}', false, now() + interval '5 minutes'
      from generate_series(1, 2000)`.execute(db)
    const { status, headers, body } = await call('/cohorts:plan', plan, owner)
    assert.equal(status, 429)
    assert.equal(headers['retry-after'], '60')
    assert.match(body.error.message, /2,000 plans that have not expired/)
    assert.equal((await call('/cohorts:plan', plan)).status, 200)
    await sql`update cohort_plan set expires_at = now() - interval '1 second'
      where account_id = ${owner.accountId}::uuid`.execute(db)
    assert.equal((await call('/cohorts:plan', plan, owner)).status, 200)
  })

  const GRAPHS: [string, (id: string) => object, string[]][] = [
    [
      'a cycle',
      (id) => ({ stages: [stage('a', id), stage('b', id)], edges: [edge('a', 'b'), edge('b', 'a')] }),
      ['cycle'],
    ],
    [
      'an edge from an unknown stage',
      (id) => ({ stages: [stage('a', id)], edges: [edge('ghost', 'a')] }),
      ['unknown_stage'],
    ],
    [
      'two edges into the same path',
      (id) => ({
        stages: [stage('a', id), stage('b', id), stage('c', id)],
        edges: [edge('a', 'c', '/x'), edge('b', 'c', '/x/y')],
      }),
      ['two_writers'],
    ],
    [
      'a path that would be both a list and an object',
      (id) => ({
        stages: [stage('a', id), stage('b', id), stage('c', id)],
        edges: [edge('a', 'c', '/k/0'), edge('b', 'c', '/k/name')],
      }),
      ['two_writers'],
    ],
    [
      'an edge named like a property of Object.prototype',
      () => ({
        stages: [stage('a', 'no-such-endpoint')],
        edges: [{ ...edge('input', 'a'), edge_id: 'constructor' }],
        sample_sizes: {},
      }),
      ['unknown_endpoint'],
    ],
    [
      'a stage whose result is never used',
      (id) => ({
        stages: [stage('a', id), stage('b', id)],
        edges: [],
        outputs: [{ name: 'out', stage_id: 'a' }],
      }),
      ['dead_end'],
    ],
    [
      'an unknown endpoint',
      () => ({ stages: [stage('a', 'no-such-endpoint')], edges: [] }),
      ['unknown_endpoint'],
    ],
    [
      'a session-mode edge that carries a plain value',
      (id) => ({
        stages: [stage('a', id), stage('b', id)],
        edges: [{ ...edge('a', 'b'), mode: 'session' }],
      }),
      ['operation_not_supported'],
    ],
    [
      'a session-mode edge that carries a prompt, which is read as a whole',
      (id) => ({
        stages: [stage('a', id, { operation: 'prefill' }), stage('b', id, { operation: 'decode' })],
        edges: [{ ...edge('a', 'b'), mode: 'session', space: { source: 'kv', target: 'kv' } }],
      }),
      ['operation_not_supported', 'space_missing'],
    ],
    [
      'unregistered spaces',
      (id) => ({
        stages: [stage('a', id), stage('b', id)],
        edges: [{ ...edge('a', 'b'), space: { source: 'nothing', target: 'nowhere' } }],
      }),
      ['space_missing'],
    ],
  ]
  it('report features that are reserved for the second step of cohorts', async () => {
    const { body } = await call('/cohorts:plan', {
      stages: [stage('a', endpoint, { operation: 'layers' }), stage('b', endpoint)],
      edges: [{ ...edge('a', 'b'), edge_id: 'over', transports: ['engine'] }],
    })
    const unsupportedReasons = body.reasons.filter(({ message }: AnyBody) =>
      /planned for a later version of cohorts/.test(message),
    )
    assert.deepEqual(
      unsupportedReasons.map(({ code, stage_id, edge_id }: AnyBody) => [code, stage_id ?? edge_id]),
      [
        ['operation_not_supported', 'a'],
        ['transport_not_allowed', 'over'],
      ],
      JSON.stringify(body.reasons),
    )
  })

  for (const [what, graph, codes] of GRAPHS) {
    it(`report ${codes.join()} for ${what}`, async () => {
      const found = await reasons(graph(endpoint))
      for (const code of codes) assert.ok(found.includes(code), found.join())
    })
  }

  it('report only unknown fallbacks, with their stage', async () => {
    const foreign = await buildEndpoint(api.database.db, (await api.account()).accountId)
    const { body } = await call('/cohorts:plan', {
      stages: [stage('a', endpoint, { fallbacks: [endpoint, 'no-such-fallback', foreign.id] })],
      edges: [],
    })
    const unknown = body.reasons.filter(({ code }: AnyBody) => code === 'unknown_endpoint')
    assert.deepEqual(
      unknown.map(({ stage_id }: AnyBody) => stage_id),
      ['a', 'a'],
    )
    assert.match(unknown[0].message, /stage "a".*"no-such-fallback".*fallback/)
    assert.match(unknown[1].message, new RegExp(foreign.id))
    assert.equal(body.feasible, false)
  })

  it('report no_node_fits for each stage when no node is connected', async () => {
    const { body } = await call('/cohorts:plan', { stages: [stage('a', endpoint)], edges: [] })
    assert.deepEqual(
      body.reasons.map(({ code, stage_id }: AnyBody) => [code, stage_id]),
      [['no_node_fits', 'a']],
    )
    const { status, body: refused } = await call('/cohorts:run', {
      plan: { stages: [stage('a', endpoint)], edges: [] },
      input: {},
    })
    assert.deepEqual([status, refused.error.details.reason], [409, 'plan_infeasible'])
  })

  const FAULTS: [string, object, string][] = [
    [
      'two stages with the same name',
      { stages: ['a', 'a'].map((id) => stage(id, 'x')), edges: [] },
      'stages.1.stage_id',
    ],
    ['a stage named input', { stages: [stage('input', 'x')], edges: [] }, 'stages.0.stage_id'],
    [
      'a template without a placeholder',
      { stages: [stage('a', 'x')], edges: [edge('input', 'a', '/t', { template: 'none' })] },
      'edges.0.to.template',
    ],
    ['a quorum without edges', { stages: [stage('a', 'x', { quorum: 2 })], edges: [] }, 'stages.0.quorum'],
    [
      'a default output for a required stage',
      { stages: [stage('a', 'x', { default_output: 1 })], edges: [] },
      'stages.0.default_output',
    ],
    [
      'a default output beyond 64 KiB',
      {
        stages: [stage('a', 'x', { required: false, default_output: 'é'.repeat(33_000) })],
        edges: [],
      },
      'stages.0.default_output',
    ],
    [
      'an invalid JSON pointer',
      { stages: [stage('a', 'x')], edges: [edge('input', 'a', 'text')] },
      'edges.0.to.path',
    ],
    [
      'an edge that has the generated name of another edge',
      {
        stages: [stage('a', 'x'), stage('b', 'x')],
        edges: [{ ...edge('a', 'b', '/x'), edge_id: 'a-b-2' }, edge('a', 'b', '/y')],
      },
      'edges.1.edge_id',
    ],
    ['an unknown member', { stages: [stage('a', 'x', { colour: 'red' })], edges: [] }, 'stages.0'],
    ['a stage with neither an endpoint nor a model', { stages: [{ stage_id: 'a' }], edges: [] }, 'stages.0'],
  ]
  for (const [what, body, faultPath] of FAULTS) {
    it(`get 422 with the path of ${what}`, async () => {
      const answer = await call('/cohorts:plan', body)
      assert.equal(answer.status, 422, JSON.stringify(answer.body))
      const places = answer.body.detail.map(({ loc }: AnyBody) => loc.join('.'))
      assert.ok(
        places.some((one: string) => one.startsWith(`body.${faultPath}`)),
        places.join(),
      )
    })
  }

  it('are rejected by a run with the path within its request', async () => {
    const plan = { stages: [stage('a', endpoint, { quorum: 9 })], edges: [] }
    const { status, body } = await call('/cohorts:run', { plan, input: {} })
    assert.equal(status, 422)
    assert.deepEqual(
      body.detail.map(({ loc }: AnyBody) => loc.join('.')),
      ['body.plan.stages.0.quorum'],
    )
  })

  it("suggest another endpoint of the account, but never another account's endpoint", async () => {
    const { db } = api.database
    await buildEndpoint(db, caller.accountId, { name: 'mail-judge' })
    await buildEndpoint(db, (await api.account()).accountId, { name: 'secret-draft' })
    const messages = async (...refs: [string, ...string[]]): Promise<string[]> => {
      const [ref, ...fallbacks] = refs
      const { body } = await call('/cohorts:plan', { stages: [stage('a', ref, { fallbacks })], edges: [] })
      return body.reasons.map(({ message }: AnyBody) => message)
    }
    assert.deepEqual(await messages('mail-jugde', 'mail_judge'), [
      'stage "a": there is no endpoint "mail-jugde"; did you mean "mail-judge"?',
      'stage "a": there is no endpoint "mail_judge", which it names as a fallback; did you mean "mail-judge"?',
    ])
    assert.deepEqual(await messages('secret-drafd'), ['stage "a": there is no endpoint "secret-drafd"'])
  })

  it("name the node that a stage is bound to, but never another account's node", async () => {
    const { db } = api.database
    const nodeOf = async (accountId: string, name: string) => {
      const id = newId()
      const more = { status: 'active', sharing: 'dedicated', hardware: 'cpu', runtime_version: '1' } as const
      await db
        .insertInto('node')
        .values({ id, account_id: accountId, name, public_key: Buffer.from(id), inventory: '{}', ...more })
        .execute()
      return id
    }
    const own = await nodeOf(caller.accountId, 'attic')
    const foreign = await nodeOf((await api.account()).accountId, 'cellar')
    const messageFor = async (nodeId: string): Promise<string> => {
      const stages = [stage('a', endpoint, { placement: { node_ids: [nodeId] } })]
      const { body } = await call('/cohorts:plan', { stages, edges: [] })
      return body.reasons[0].message
    }
    assert.match(await messageFor(own), /: it may only run on node "attic", which is offline$/)
    assert.match(await messageFor(foreign), new RegExp(`no node has the id ${foreign}$`))
  })

  it('belong to their account, and can be run until they expire', async () => {
    const { body: plan } = await call('/cohorts:plan', { stages: [stage('a', endpoint)], edges: [] })
    const stranger = await api.account()
    const foreign = await call('/cohorts:run', { plan_id: plan.plan_id, input: {} }, stranger)
    assert.equal(foreign.status, 404)
    await api.database.db
      .updateTable('cohort_plan')
      .set({ expires_at: new Date(Date.now() - 1_000) })
      .where('id', '=', plan.plan_id)
      .execute()
    const late = await call('/cohorts:run', { plan_id: plan.plan_id, input: {} })
    assert.deepEqual([late.status, late.body.error.details.reason], [409, 'plan_expired'])
  })

  it('require an account, and a run requires a user', async () => {
    const body = { stages: [stage('a', endpoint)], edges: [] }
    const bare = await api.call('POST', '/api/v1/cohorts:plan', { key: caller.key, body })
    assert.equal(bare.status, 422)
    const headers = { 'x-account-id': caller.accountId }
    const run = await api.call('POST', '/api/v1/cohorts:run', {
      key: caller.key,
      headers,
      body: { plan: body, input: {} },
    })
    assert.equal(run.status, 422, JSON.stringify(run.body))
  })

  it("can be prepared from capabilities, which are found by an endpoint's name or id", async () => {
    const { id, name } = await buildEndpoint(api.database.db, caller.accountId)
    const look = (ref: string) =>
      api.call<AnyBody>('GET', `/api/v1/cohorts/capabilities?endpoint_id=${ref}`, {
        key: caller.key,
        headers: { 'x-account-id': caller.accountId },
      })
    const [byId, byName, unknown] = [await look(id), await look(name), await look('nobody-has-this')]

    assert.equal(byName.status, 200, JSON.stringify(byName.body))
    assert.equal(byName.body.endpoint_id, id)
    assert.deepEqual(byName.body, byId.body)
    assert.equal(unknown.status, 422)
    assert.match(unknown.body.detail[0].msg, /the id or name of an endpoint/)
    assert.equal((await look(newId())).status, 404)
  })

  it('list which operations support hand-overs in frames', async () => {
    const { db } = api.database
    const look = async (overrides: object) => {
      const { id } = await buildEndpoint(db, caller.accountId, overrides)
      const { body } = await api.call<AnyBody>('GET', `/api/v1/cohorts/capabilities?endpoint_id=${id}`, {
        key: caller.key,
        headers: { 'x-account-id': caller.accountId },
      })
      return [body.modes, body.streamed_operations]
    }

    assert.deepEqual(await look({ task_type: 'embeddings' }), [['transfer', 'session'], ['embed']])
    assert.deepEqual(await look({}), [['transfer'], []])
  })

  it('report an edge that needs a session, and what the session would require', async () => {
    const { body } = await call('/cohorts:plan', {
      stages: [stage('a', endpoint), stage('b', endpoint)],
      edges: [{ ...edge('a', 'b'), edge_id: 'frames', mode: 'session' }],
    })

    const [{ edge_id, message }] = body.reasons.filter(
      ({ code }: AnyBody) => code === 'operation_not_supported',
    )
    assert.equal(edge_id, 'frames')
    assert.match(message, /edge "frames": a value is handed over as a whole.*"embed".*"space"/)
  })

  it("count toward the account's rate limit, unlike reading capabilities", async () => {
    await using limited = await startApi({ env: { HEARTH_RATE_LIMIT: '1', HEARTH_RATE_BURST: '2' } })
    const { accountId, key } = await limited.account()
    const { id } = await buildEndpoint(limited.database.db, accountId)
    const headers = { 'x-account-id': accountId }
    const looks = []
    for (let i = 0; i < 4; i++)
      looks.push(
        await limited.call('GET', `/api/v1/cohorts/capabilities?endpoint_id=${id}`, { key, headers }),
      )
    const body = { stages: [stage('a', id)], edges: [] }
    const plans = []
    for (let i = 0; i < 3; i++)
      plans.push(await limited.call('POST', '/api/v1/cohorts:plan', { key, headers, body }))

    assert.deepEqual(
      looks.map(({ status }) => status),
      [200, 200, 200, 200],
    )
    assert.deepEqual(
      plans.map(({ status }) => status),
      [200, 200, 429],
    )
  })
})
