import assert from 'node:assert/strict'
import type { MergeClaim } from '../../../../../schemas/training-merge.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { claimJob, createRun, readyDataset } from '../../../../support/builders/training.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { HUB_TOKEN, startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const MODELS = '/api/builder/v1/models'

describe('private and gated hub repositories', () => {
  let hub: TestHub
  let api: TestApi
  let node: SignedNode
  let lent: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    hub = await startHub(
      llamaRepo('corp/secret', { isPrivate: true, downloads: 900 }),
      llamaRepo('corp/open'),
      llamaRepo('lab/terms', { gated: 'auto' }),
    )
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url, HEARTH_HUB_TOKEN: HUB_TOKEN } })
    node = await signedNode(api)
    ;[lent, other] = [await api.account(), await api.account()]
    const { status } = await lend(['corp/*', 'LAB/Terms'])
    assert.equal(status, 200)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const lend = (hub_repos: string[]) =>
    api.call('PATCH', `/api/v1/admin/accounts/${lent.accountId}`, {
      key: OPERATIONS_KEY,
      body: { hub_repos },
    })
  const info = (repoId: string, { key }: { key: string }) =>
    api.call('GET', `${MODELS}/hf/${encodeURIComponent(repoId)}/info`, { key })
  const register = (repo_id: string, { key }: { key: string }, revision?: string) =>
    api.call('POST', `${MODELS}/hf/register`, {
      key,
      body: { repo_id, task_type: 'text-generation', ...(revision !== undefined && { revision }) },
    })
  const found = async ({ key }: { key: string }) => {
    const { body } = await api.call('POST', `${MODELS}/hf/search`, { key, body: { query: 'corp/' } })
    return body.results.map(({ repo_id }: { repo_id: string }) => repo_id)
  }
  const baseFor = async ({ accountId, key }: { accountId: string; key: string }, base_model: string) => {
    const dataset_id = await readyDataset(api, accountId, { columns: ['instruction', 'output'] })
    const run = { model_config_id: 'llm-qlora-finetune', dataset_id, hyperparameters: { base_model } }
    return (await claimJob(node, await createRun(api, key, run))).specification.base
  }

  it("are hidden, if private, from accounts without the operator's permission for them", async () => {
    assert.deepEqual(await found(lent), ['corp/secret', 'corp/open'])
    assert.deepEqual(await found(other), ['corp/open'])
    assert.equal((await info('corp/secret', lent)).status, 200)
    for (const answer of [
      await info('corp/secret', other),
      await register('corp/secret', other),
      await register('corp/secret', other, 'main'),
    ]) {
      assert.equal(answer.status, 404)
      assert.equal(answer.body.error.message, (await info('corp/absent', other)).body.error.message)
    }
  })

  it('are shown with the next step, if gated, but rejected', async () => {
    const { body } = await info('lab/terms', other)
    const check = body.compatibility.checks.find(({ passed }: { passed: boolean }) => !passed)
    assert.deepEqual([body.compatibility.status, check.check], ['incompatible', 'access'])
    assert.match(check.message, /ask the operator of this platform to enable it/)
    assert.equal((await register('lab/terms', other)).status, 422)
    assert.equal((await info('lab/terms', lent)).body.compatibility.status, 'compatible')
  })

  it("are unavailable as a run's base without permission", async () => {
    for (const repoId of ['corp/secret', 'lab/terms']) {
      const mine = await baseFor(lent, repoId)
      const theirs = await baseFor(other, repoId)

      assert.equal(mine?.type, 'files')
      assert.equal(theirs?.type, 'unavailable', repoId)
    }
  })

  it('are unavailable as merge sources without permission', async () => {
    const mergeFor = async ({ key }: { key: string }) => {
      const { body } = await api.call('POST', '/api/builder/v1/training/merges', {
        key,
        body: {
          name: 'closed',
          method: 'slerp',
          sources: ['corp/open', 'corp/secret'].map((repo_id) => ({ type: 'hf', repo_id })),
        },
      })
      const claim = (await claimJob(node, body.job_id)) as unknown as MergeClaim
      return claim.merge.ingredients.map(({ from }) => from.type)
    }

    assert.deepEqual(await mergeFor(lent), ['files', 'files'])
    assert.deepEqual(await mergeFor(other), ['files', 'unavailable'])
  })

  it('are visible to others only after operator approval, and never as a base to train on', async () => {
    const { endpoint_id, model_config_id, version_id } = (await register('corp/secret', lent)).body
    const seen = () => api.call('GET', `/api/builder/v1/endpoints/${endpoint_id}`, { key: other.key })
    const promoted = await api.call('PATCH', `/api/v1/admin/hub-models/${model_config_id}/lifecycle`, {
      key: OPERATIONS_KEY,
      body: { lifecycle_status: 'ready' },
    })
    assert.equal(promoted.status, 200)

    assert.equal((await seen()).status, 403)
    const registry = await api.call('GET', `${MODELS}/registry`, { key: other.key })
    assert.doesNotMatch(registry.text, /corp\/secret/)
    const approve = `/api/v1/admin/endpoints/${endpoint_id}:approve`
    assert.equal((await api.call('POST', approve, { key: OPERATIONS_KEY, body: {} })).status, 200)

    assert.equal((await seen()).status, 200)
    const dataset_id = await readyDataset(api, other.accountId, { columns: ['instruction', 'output'] })
    const { status } = await api.call('POST', '/api/builder/v1/training/runs', {
      key: other.key,
      body: {
        job_name: 'leak',
        model_config_id: 'llm-qlora-finetune',
        dataset_id,
        base: { type: 'model_version', version_id },
      },
    })
    assert.equal(status, 422)
  })

  it("are withdrawn when the operator's list no longer includes them", async () => {
    assert.equal((await lend(['corp'])).body.hub_repos.length, 1)
    assert.equal((await info('corp/secret', lent)).status, 404)
    assert.equal((await lend(['corp/sec*'])).status, 422)
    assert.equal((await lend(['*'])).status, 200)
    assert.equal((await info('corp/secret', lent)).status, 200)
  })

  it("are searched through a cache, and an account's searches are rate-limited", async () => {
    for (let i = 0; i < 30; i++) hub.put(llamaRepo(`bulk/model-${i}`))
    const { key } = await api.account()
    const search = (query: string) => api.call('POST', `${MODELS}/hf/search`, { key, body: { query } })
    await search('bulk')
    const requestCount = hub.requests.length

    const again = await search('bulk')

    assert.equal(again.body.results.length, 20)
    assert.equal(again.body.complete, false)
    assert.equal(hub.requests.length, requestCount)
    let limited: Awaited<ReturnType<typeof search>> | undefined
    for (let i = 0; i < 400 && !limited; i++) {
      const answer = await search(`nothing-${i}`)
      if (answer.status === 429) limited = answer
    }
    assert.equal(limited?.body.error.code, 'rate_limited')
    assert.match(limited?.body.error.message ?? '', /sends too many requests to the model hub/)
    assert.equal((await info('corp/open', other)).status, 200)
  })
})

describe('a hub search', () => {
  it('continues until it has enough matches, and returns the true size of unsupported weights', async () => {
    await using hub = await startHub()
    for (let i = 0; i < 60; i++) {
      const files = { 'pytorch_model.bin': Buffer.alloc(5 * 1024 * 1024) }
      hub.put(llamaRepo(`zoo/pickle-${i}`, { files, downloads: 1_000 - i }))
    }
    for (let i = 0; i < 25; i++) hub.put(llamaRepo(`zoo/small-${i}`, { downloads: 100 - i }))
    hub.put({ repoId: 'zoo/empty', files: {}, downloads: 500 })
    await using api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    const { key } = await api.account()
    const search = async (body: object) =>
      (await api.call('POST', `${MODELS}/hf/search`, { key, body: { query: 'zoo', ...body } })).body
    const names = ({ results }: { results: { repo_id: string }[] }) => results.map(({ repo_id }) => repo_id)

    const supported = await search({ only_supported: true })
    const small = await search({ max_size_gb: 0.001 })
    const few = await search({ only_supported: true, min_downloads: 95 })

    const wanted = Array.from({ length: 20 }, (_, i) => `zoo/small-${i}`)
    assert.deepEqual([names(supported), supported.complete], [wanted, false])
    assert.deepEqual(names(small), wanted)
    assert.deepEqual([names(few), few.complete], [wanted.slice(0, 6), true])
    const sizes = (await search({})).results.map(({ size_mb }: { size_mb: number }) => size_mb)
    assert.deepEqual([...new Set(sizes)], [5])
    const empty = await api.call('GET', `${MODELS}/hf/${encodeURIComponent('zoo/empty')}/info`, { key })
    assert.equal(empty.body.size_mb, null)
  })
})
