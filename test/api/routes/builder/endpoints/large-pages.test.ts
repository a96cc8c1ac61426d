import assert from 'node:assert/strict'
import { MAX_PAGE_BYTES } from '../../../../../db/page-bytes.ts'
import { buildEndpoint, buildRun } from '../../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'

const PATH = '/api/builder/v1/endpoints'

const LARGE = 12
const LARGE_BYTES = 300_000
/** Repeated text is small in the database and large in a response. */
const large = (text: string) => JSON.stringify({ text: text.repeat(LARGE_BYTES / text.length) })
const bytesOf = (body: unknown) => Buffer.byteLength(JSON.stringify(body))

describe('pages of rows with large text fields', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let ids: string[]

  before(async () => {
    api = await startApi()
    mine = await api.account()
    const { db } = api.database
    const build = (n: number) =>
      buildEndpoint(db, mine.accountId, {
        visibility: 'public',
        review_status: 'pending_review',
        created_at: new Date(Date.now() - n * 1_000),
        ...(n > 0 && { [n % 2 ? 'input_schema' : 'example_output']: large(n % 3 ? 'a' : 'some text ') }),
      })
    const rows = []
    for (let n = LARGE; n >= 0; n--) rows.push(await build(n))
    ids = rows.map(({ id }) => id).toReversed()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Reads all pages of a list that has a cursor. */
  async function* pagesOf(path: string, key: string) {
    for (let cursor = ''; ;) {
      const { status, body } = await api.call('GET', `${path}${cursor}`, { key })
      assert.equal(status, 200, JSON.stringify(body))
      yield body
      if (body.next_cursor === null) return
      cursor = `&cursor=${body.next_cursor}`
    }
  }

  it('list every endpoint, and omit schemas and examples beyond the byte limit of a page', async () => {
    const { body } = await api.call('GET', `${PATH}?limit=100`, mine)

    assert.deepEqual(
      body.endpoints.map(({ endpoint_id }: { endpoint_id: string }) => endpoint_id),
      ids,
    )
    assert.equal(body.total, LARGE + 1)
    assert.ok(bytesOf(body) < MAX_PAGE_BYTES + 100_000, `${bytesOf(body)} bytes`)
    const [small, ...others] = body.endpoints
    assert.deepEqual([small.abridged, small.input_schema], [undefined, { type: 'object' }])
    const abridged = others.filter((one: { abridged?: boolean }) => one.abridged)
    assert.equal(others.length - abridged.length, Math.floor(MAX_PAGE_BYTES / LARGE_BYTES))
    for (const { input_schema, output_schema, example_input, example_output, examples } of abridged) {
      assert.deepEqual(
        [input_schema, output_schema, example_input, example_output, examples],
        [{}, {}, {}, {}, []],
      )
    }
    const { body: whole } = await api.call('GET', `${PATH}/${abridged[0].endpoint_id}`, mine)
    assert.equal(whole.abridged, undefined)
    assert.ok(bytesOf(whole) > LARGE_BYTES)
  })

  it('list fewer endpoints for review than the limit, each exactly once and in full', async () => {
    const seen: string[] = []
    for await (const page of pagesOf('/api/v1/admin/endpoints?limit=100', OPERATIONS_KEY)) {
      assert.ok(bytesOf(page) < MAX_PAGE_BYTES + LARGE_BYTES + 100_000, `${bytesOf(page)} bytes`)
      for (const endpoint of page.endpoints) {
        seen.push(endpoint.endpoint_id)
        assert.notDeepEqual(endpoint.input_schema, {})
      }
    }
    assert.deepEqual(seen, ids)
  })

  for (const [order, by] of [
    ['desc', 'created_at'],
    ['asc', 'name'],
  ] as const) {
    it(`list fewer runs than the limit, sorted by ${by}, each only once and without per-epoch losses`, async () => {
      const { accountId, key } = await api.account()
      const { db } = api.database
      const runs: string[] = []
      for (let n = 0; n < LARGE; n++) {
        const metrics = n % 2 ? { note: 'b'.repeat(LARGE_BYTES) } : { epochs: ['b'.repeat(LARGE_BYTES)] }
        const texts = n % 3 ? {} : { hyperparameters: large('c') }
        const named = { job_name: `run ${String(n).padStart(2, '0')}` }
        runs.push(
          (await buildRun(db, accountId, { ...named, metrics: JSON.stringify(metrics), ...texts })).id,
        )
      }
      const seen: string[] = []
      let pages = 0
      const path = `/api/builder/v1/training/runs?limit=100&sort=${by}&order=${order}`
      for await (const page of pagesOf(path, key)) {
        pages += 1
        assert.ok(bytesOf(page) < MAX_PAGE_BYTES + 2 * LARGE_BYTES + 100_000, `${bytesOf(page)} bytes`)
        seen.push(...page.runs.map(({ run_id }: { run_id: string }) => run_id))
      }
      assert.deepEqual(seen, order === 'desc' ? runs.toReversed() : runs)
      assert.equal(pages, 2)
    })
  }
})
