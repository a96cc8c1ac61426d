import assert from 'node:assert/strict'
import { checkIfMatch, etagMatches, etagOf } from '../../../api/http/etag.ts'
import { checkKillSwitch, passKillSwitch } from '../../../api/http/kill-switch-gate.ts'
import { readPage } from '../../../api/http/page.ts'
import { createRouter, routedPath } from '../../../api/http/router.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'

const isCode = (code: string) => (err: unknown) => err instanceof ApiError && err.code === code

describe('the router', () => {
  const paths = [
    '/models',
    '/models/{id}',
    '/models/{id}/versions/{version}',
    '/models/registry',
    '/models/hf/{repo}/info',
    '/actions/{slug}',
    '/actions/{slug}:invoke',
    '/endpoints/{id}/infer',
    '/endpoints/{id}/infer:async',
    '/leases/{token}:renew',
    '/cohorts:plan',
  ]
  // The order of registration must not matter.
  const entries = paths.toReversed().map((path) => ({ name: path, method: 'GET', path, middlewares: [] }))
  const router = createRouter(entries)
  const find = (path: string) => {
    const routed = routedPath(path)
    const [layer] = router.match(routed, 'GET').pathAndMethod
    return layer && [layer.name, layer.params(routed, layer.captures(routed))]
  }

  it('prefers literals to parameters and backtracks from dead ends', () => {
    assert.deepEqual(find('/models/registry'), ['/models/registry', {}])
    assert.deepEqual(find('/models/registry/versions/2'), [
      '/models/{id}/versions/{version}',
      { id: 'registry', version: '2' },
    ])
    assert.deepEqual(find('/models/hf/org%2Fname/info'), ['/models/hf/{repo}/info', { repo: 'org/name' }])
  })

  it('distinguishes verbs after a colon from ids', () => {
    assert.deepEqual(find('/actions/a:invoke'), ['/actions/{slug}:invoke', { slug: 'a' }])
    assert.deepEqual(find('/actions/a%3Ainvoke'), ['/actions/{slug}:invoke', { slug: 'a' }])
    assert.deepEqual(find('/actions/a:b'), ['/actions/{slug}', { slug: 'a:b' }])
    assert.deepEqual(find('/endpoints/e/infer:async'), ['/endpoints/{id}/infer:async', { id: 'e' }])
    assert.deepEqual(find('/cohorts:plan'), ['/cohorts:plan', {}])
  })

  it('returns no match for unknown paths', () => {
    for (const path of [
      '/',
      '',
      '//',
      '/models/',
      '/endpoints/e/inferZZZ',
      '/leases/:renew',
      '/actions/',
      '/models/a/versions',
      '/cohorts:planX',
    ]) {
      assert.equal(find(path), undefined, path)
    }
  })

  it('rejects two routes for the same path', () => {
    const withOne = (path: string) => () =>
      createRouter([...entries, { name: 'again', method: 'GET', path, middlewares: [] }])

    assert.throws(withOne('/models'), /twice/)
    assert.throws(withOne('/models/{other}/x'), /are at the same position/)
  })
})

describe('pages', () => {
  const ids = Array.from({ length: 45 }, newId).toReversed()
  const read = async ({ limit, before }: { limit: number; before: string | undefined }) =>
    ids
      .filter((id) => before === undefined || id < before)
      .slice(0, limit)
      .map((id) => ({ id }))

  it('return every row once, and end', async () => {
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await readPage({ limit: 20, ...(cursor && { cursor }) }, ['a'], read)
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.next_cursor ?? undefined
    } while (cursor)

    assert.deepEqual(seen, ids)
  })

  it('end with a null cursor exactly when no rows follow', async () => {
    const page = await readPage({ limit: 45 }, ['a'], read)

    assert.equal(page.items.length, 45)
    assert.equal(page.next_cursor, null)
  })

  it('reject cursors from another list and invented ones', async () => {
    const { next_cursor: cursor } = await readPage({}, ['a', 'ready'], read)

    await assert.rejects(
      readPage({ cursor: cursor ?? '' }, ['a', 'failed'], read),
      isCode('validation_failed'),
    )
    for (const made of ['x', 'AAAA', '', Buffer.from('a.b').toString('base64url')]) {
      await assert.rejects(readPage({ cursor: made }, ['a'], read), isCode('validation_failed'))
    }
  })
})

describe('entity tags', () => {
  const tag = etagOf({ a: 1 })

  it('match by value, weak or strong', () => {
    assert.equal(tag, etagOf({ a: 1 }))
    assert.notEqual(tag, etagOf({ a: 2 }))
    assert.ok(etagMatches(`"x", W/${tag}`, tag))
    assert.ok(etagMatches('*', tag))
    assert.ok(!etagMatches('"x"', tag))
    assert.ok(!etagMatches(undefined, tag))
  })

  it('guard writes against stale reads', () => {
    const request = (value: string) => ({ req: { headers: { 'if-match': value } } }) as never

    checkIfMatch(request(tag), tag)
    assert.throws(() => checkIfMatch(request('"old"'), tag), isCode('precondition_failed'))
  })
})

describe('the kill-switch gate', () => {
  it('admits new work only while the switch is known to be off', () => {
    const now = performance.now()

    checkKillSwitch({ active: false, reason: null, seenAt: now - 1_900 }, now)
    for (const view of [
      { active: true, reason: 'fire', seenAt: now },
      { active: false, reason: null, seenAt: now - 2_001 },
      { active: false, reason: null, seenAt: Number.NEGATIVE_INFINITY },
    ]) {
      assert.throws(() => checkKillSwitch(view, now), isCode('operator_kill_switch'))
    }
  })

  it('waits for one fresh read when the process was too busy to poll', async () => {
    const view = { active: false, reason: null as string | null, seenAt: performance.now() - 5_000 }
    const passing = passKillSwitch(view)
    view.seenAt = performance.now()
    await passing
    assert.equal(passKillSwitch(view), undefined)

    view.seenAt = performance.now() - 5_000
    const refused = passKillSwitch(view)
    Object.assign(view, { active: true, reason: 'fire', seenAt: performance.now() })
    await assert.rejects(Promise.resolve(refused), isCode('operator_kill_switch'))
    assert.throws(() => void passKillSwitch(view), isCode('operator_kill_switch'))
  })
})
