import assert from 'node:assert/strict'
import { buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { commitOf, type HubRepo, startHub, type TestHub } from '../../../../support/servers/hub-server.ts'

const MODELS = '/api/builder/v1/models'
const REPO = 'famous-lab/Great-7B'
const at = (text: string, repoId = REPO): HubRepo => {
  const repo = llamaRepo(repoId)
  return { ...repo, files: { ...repo.files, 'README.md': Buffer.from(text) } }
}
const [FIRST, SECOND, HEAD] = [at('first'), at('second'), at('third')]

describe('the revision of a hub import', () => {
  let hub: TestHub
  let api: TestApi
  before(async () => {
    hub = await startHub(FIRST, SECOND, HEAD)
    hub.propose('refs/pr/7', at('a stranger proposes'))
    hub.propose('experiments', at('not taken over'))
    hub.tag(REPO, 'v1', commitOf(SECOND))
    hub.tag(REPO, 'nightly', 'experiments')
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const register = (key: string, revision?: string, repo_id = REPO) =>
    api.call('POST', `${MODELS}/hf/register`, {
      key,
      body: { repo_id, task_type: 'text-generation', ...(revision !== undefined && { revision }) },
    })
  const registry = async (key: string, id: string) =>
    (await api.call('GET', `${MODELS}/registry`, { key })).body.models.find(
      (one: { model_config_id: string }) => one.model_config_id === id,
    )
  const move = (key: string, id: string, lifecycle_status: string) =>
    api.call('PATCH', `${MODELS}/registry/${id}/lifecycle`, { key, body: { lifecycle_status } })
  const override = (id: string, body: object, key = OPERATIONS_KEY) =>
    api.call('PATCH', `/api/v1/admin/hub-models/${id}/lifecycle`, { key, body })

  it('must be reachable from the default branch', async () => {
    const { key } = await api.account()
    const proposals = ['refs/pr/7', commitOf(at('a stranger proposes')), 'experiments', 'nightly', 'no-such']

    for (const revision of proposals) {
      const { status, body } = await register(key, revision)

      assert.equal(status, 422, revision)
      assert.deepEqual(body.detail[0].loc, ['body', 'revision'])
      assert.match(body.detail[0].msg, /not reachable from the default branch/)
    }
    assert.equal((await register(key, 'main', 'famous-lab/absent')).status, 404)
  })

  it('may be a branch head, an earlier commit, or a tag', async () => {
    for (const [revision, repo] of [
      [undefined, HEAD],
      ['main', HEAD],
      [commitOf(HEAD), HEAD],
      [commitOf(FIRST), FIRST],
      ['v1', SECOND],
    ] as const) {
      const { status, body } = await register((await api.account()).key, revision)

      assert.equal(status, 201, revision)
      assert.equal(body.revision, commitOf(repo))
    }
  })

  it('is searched for in the newest 5,000 commits, page by page', async () => {
    const repoId = 'famous-lab/busy'
    const commits = Array.from({ length: 5_200 }, (_, i) => ({
      ...at('', repoId),
      files: { ...HEAD.files, 'README.md': Buffer.from(`change ${i}`) },
    }))
    commits.forEach((repo) => hub.put(repo))
    const { key } = await api.account()

    const tooOld = await register(key, commitOf(commits[100]!), repoId)
    const pages = hub.requests.filter(({ line }) => line.includes('/busy/commits/'))
    const old = await register(key, commitOf(commits[300]!), repoId)

    assert.equal(tooOld.status, 422)
    assert.match(tooOld.body.detail[0].msg, /its newest 5000 commits/)
    assert.equal(pages.length, 5)
    assert.equal(old.status, 201, old.text)
  })

  it("is made ready by its test or an operator, not by one of its account's keys", async () => {
    const { key, accountId } = await api.account()
    const stranger = await api.account()
    const { model_config_id: id, endpoint_id } = (await register(key, 'v1')).body

    const refused = await move(key, id, 'ready')
    assert.equal(refused.status, 403)
    assert.match(refused.body.error.message, /passing its test/)
    assert.equal((await registry(key, id)).lifecycle_status, 'candidate')
    assert.equal((await override(id, { lifecycle_status: 'ready' }, key)).status, 401)
    assert.equal((await override(id, { lifecycle_status: 'disabled' })).status, 422)

    const promoted = await override(id, { lifecycle_status: 'ready', reason: 'tried by hand' })
    assert.deepEqual([promoted.status, promoted.body.lifecycle_status], [200, 'ready'])
    assert.equal((await registry(stranger.key, id)).imported_by, accountId)
    assert.equal((await move(key, id, 'preferred')).status, 200)
    assert.equal((await override(endpoint_id, { lifecycle_status: 'ready' })).status, 404)
  })

  it('can be tested again, which clears its note', async () => {
    const { key } = await api.account()
    const { model_config_id: id, version_id } = (await register(key)).body
    await api.database.db
      .updateTable('model_version')
      .set({ lifecycle_note: 'its answer breaks the output schema' })
      .where('id', '=', version_id)
      .execute()

    const { status, body } = await move(key, id, 'candidate')

    assert.deepEqual([status, body.lifecycle_status, body.lifecycle_note], [200, 'candidate', null])
    const { tests } = await api.database.db
      .selectFrom('model_version')
      .select('tests')
      .where('id', '=', version_id)
      .executeTakeFirstOrThrow()
    assert.equal(tests, 1)
  })

  it('is shown with its importer on every surface', async () => {
    const { key, accountId } = await api.account()
    const stranger = await api.account()
    const { model_config_id: id, endpoint_id, model_name } = (await register(key, commitOf(FIRST))).body
    await override(id, { lifecycle_status: 'ready' })
    const origin = { repo_id: REPO, revision: commitOf(FIRST), imported_by: accountId }
    const originOf = ({ repo_id, revision, imported_by }: typeof origin) => ({
      repo_id,
      revision,
      imported_by,
    })

    const headers = { authorization: `Bearer ${stranger.key}` }
    const chat = await api.call('GET', `/v1/models/${model_name}`, { headers })
    const endpoint = await api.call('GET', `/api/builder/v1/endpoints/${endpoint_id}`, { key: stranger.key })
    const open = await api.call('GET', '/api/builder/v1/inference/models')

    assert.equal(chat.body.owned_by, accountId)
    assert.deepEqual(originOf(chat.body), origin)
    assert.deepEqual(originOf(endpoint.body), origin)
    assert.deepEqual(originOf(await registry(stranger.key, id)), origin)
    const listed = open.body.models.find((one: { model_name: string }) => one.model_name === model_name)
    assert.deepEqual(originOf(listed), origin)
  })

  it("keeps its repository's listing: an account cannot change it", async () => {
    const { key } = await api.account()
    const { endpoint_id } = (await register(key)).body
    const patch = (body: object) =>
      api.call('PATCH', `/api/builder/v1/endpoints/${endpoint_id}`, { key, body })

    for (const body of [{ display_name: 'GPT' }, { description: 'the best', status: 'paused' }]) {
      const { status, text } = await patch(body)
      assert.equal(status, 409, text)
    }
    const paused = await patch({ status: 'paused', visibility: 'public' })
    assert.deepEqual([paused.status, paused.body.status], [200, 'paused'])
  })

  it('has a unique model name for each repository, which account endpoints cannot take', async () => {
    const names = new Set<string>()
    for (const repoId of [
      'a-b/c-d',
      'a/b-c-d',
      'a-b-c/d',
      'a-b/c_d',
      'a-b/c.d',
      `long/${'x'.repeat(120)}`,
      'a/b_',
    ]) {
      hub.put(at('', repoId))
      const { status, body } = await register((await api.account()).key, undefined, repoId)
      assert.equal(status, 201, repoId)
      assert.match(body.model_name, /^hf-[a-z0-9._-]{1,97}$/)
      names.add(body.model_name)
    }
    assert.equal(names.size, 7)
    assert.ok(names.has('hf-a-b--c-d') && names.has('hf-a--b-c-d'))

    const { key, accountId } = await api.account()
    const run = await buildRun(api.database.db, accountId)
    await buildVersion(api.database.db, accountId, { job_id: run.id, lifecycle_status: 'ready' })
    const squatted = await api.call(
      'POST',
      `/api/builder/v1/training/runs/${run.id}/register-for-inference`,
      {
        key,
        body: { name: 'hf-famous-lab--great-70b' },
      },
    )
    const imported = await api.call('POST', `/api/v1/admin/model-imports/${run.id}:complete`, {
      key: OPERATIONS_KEY,
      body: {
        account_id: accountId,
        name: 'hf-famous-lab--great-70b',
        task_type: 'chat',
        runtime_profile: 'llm-transformers',
        files: [{ path: 'config.json', size_bytes: 2, sha256: '0'.repeat(64) }],
      },
    })
    for (const { status, body } of [squatted, imported]) {
      assert.equal(status, 422)
      assert.deepEqual(body.detail[0].loc, ['body', 'name'])
    }
  })
})
