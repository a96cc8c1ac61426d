import assert from 'node:assert/strict'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import {
  commitOf,
  HUB_TOKEN,
  HUB_TOKEN_WITHOUT_GRANT,
  startHub,
  type TestHub,
} from '../../../../support/servers/hub-server.ts'

const MODELS = '/api/builder/v1/models'
const REPO = llamaRepo('acme/Tiny-Llama')
const infoPath = (repoId: string) => `${MODELS}/hf/${encodeURIComponent(repoId)}/info`
const CUSTOM = Buffer.from(
  JSON.stringify({ architectures: ['OddForCausalLM'], auto_map: { AutoModel: 'modeling.Odd' } }),
)

describe('the model hub', () => {
  let hub: TestHub
  let api: TestApi
  let key: string
  let accountId: string
  before(async () => {
    hub = await startHub(
      REPO,
      llamaRepo('acme/gated', { gated: 'manual', downloads: 90 }),
      llamaRepo('acme/pickle', { files: { 'pytorch_model.bin': Buffer.alloc(10) }, downloads: 5 }),
      llamaRepo('acme/custom', { files: { ...REPO.files, 'config.json': CUSTOM } }),
      llamaRepo('acme/own-licence', { licence: 'llama3', downloads: 1 }),
      llamaRepo('acme/Embedder', { pipelineTag: 'feature-extraction' }),
    )
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    ;({ key, accountId } = await api.account())
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const register = (body: object, as = key) => api.call('POST', `${MODELS}/hf/register`, { key: as, body })
  const search = (body: object) => api.call('POST', `${MODELS}/hf/search`, { key, body })
  const failing = (entry: { compatibility: { checks: { check: string; passed: boolean }[] } }) =>
    entry.compatibility.checks.filter(({ passed }) => !passed).map(({ check }) => check)

  const lend = (id: string, hub_repos: string[]) =>
    api.call('PATCH', `/api/v1/admin/accounts/${id}`, { key: OPERATIONS_KEY, body: { hub_repos } })

  it('shows whether a repository can be served and what that takes', async () => {
    const { status, body } = await api.call('GET', infoPath('acme/Tiny-Llama'), { key })

    assert.equal(status, 200)
    assert.equal(body.repo_id, 'acme/Tiny-Llama')
    assert.equal(body.compatibility.status, 'compatible')
    assert.equal(body.compatibility.runtime_profile_id, 'llm-transformers')
    assert.ok(body.estimated_requirements.vram_mb > 0)
    assert.ok(body.estimated_requirements.params_b > 0)
    assert.equal(body.revision, commitOf(REPO))
  })

  it('names the failing check of a repository that cannot be served', async () => {
    for (const [repo, check] of [
      ['acme/pickle', 'weights'],
      ['acme/custom', 'remote_code'],
      ['acme/gated', 'access'],
    ] as const) {
      const { body } = await api.call('GET', infoPath(repo), { key })

      assert.equal(body.compatibility.status, 'incompatible', repo)
      assert.ok(failing(body).includes(check), repo)
    }
    const { body } = await api.call('GET', infoPath('acme/own-licence'), { key })
    assert.equal(body.compatibility.status, 'requires_review')
    assert.deepEqual(failing(body), ['licence'])
  })

  it('answers 404 for a repository that the hub does not show', async () => {
    assert.equal((await api.call('GET', infoPath('acme/absent'), { key })).status, 404)
    assert.equal((await api.call('GET', infoPath('../../etc'), { key })).status, 422)
  })

  it('searches by text and task, most downloaded first', async () => {
    const { status, body } = await search({ query: 'acme', task_type: 'text-generation' })

    assert.equal(status, 200)
    assert.equal(body.results.length, 5)
    assert.equal(body.results[0].size_mb > 0, true)
    assert.deepEqual(
      (await search({ query: 'acme', task_type: 'embeddings' })).body.results.map(
        (entry: { repo_id: string }) => entry.repo_id,
      ),
      ['acme/Embedder'],
    )
  })

  it('ignores an unknown task type', async () => {
    const { status, body } = await search({ query: 'acme', task_type: 'feature-extraction' })

    assert.equal(status, 200)
    assert.equal(body.results.length, 6)
  })

  it('filters by downloads, size and support', async () => {
    assert.equal((await search({ query: 'acme', min_downloads: 90 })).body.results.length, 4)
    assert.equal((await search({ query: 'tiny', max_size_gb: 0 })).body.results.length, 0)
    const { body } = await search({ query: 'acme', only_supported: true, task_type: 'text-generation' })
    assert.deepEqual(body.results.map((entry: { repo_id: string }) => entry.repo_id).toSorted(), [
      'acme/Tiny-Llama',
      'acme/own-licence',
    ])
  })

  it("passes on the hub's rate limit with the time to wait", async () => {
    hub.faults.limited = { left: 1, seconds: 87 }

    const { status, headers, body } = await api.call('GET', infoPath('acme/Tiny-Llama'), { key })

    assert.equal(status, 429)
    assert.equal(headers['retry-after'], '87')
    assert.equal(body.error.code, 'rate_limited')
  })

  it('registers a repository as a free public candidate, and returns the same import when it is registered again', async () => {
    const first = await register({ repo_id: 'acme/Tiny-Llama', task_type: 'text-generation' })
    const again = await register({ repo_id: 'acme/Tiny-Llama', task_type: 'text-generation' })

    assert.equal(first.status, 201, first.text)
    assert.deepEqual(again.body, first.body)
    assert.equal(first.body.model_name, 'hf-acme--tiny-llama')
    assert.equal(first.body.revision, commitOf(REPO))
    assert.match(first.body.inference_url, new RegExp(`/endpoints/${first.body.endpoint_id}/infer$`))
    const endpoint = await api.call('GET', `/api/builder/v1/endpoints/${first.body.endpoint_id}`, { key })
    assert.equal(endpoint.body.visibility, 'public')
    assert.equal(endpoint.body.is_base_model, true)
    assert.equal(endpoint.body.source, 'catalog')
    assert.equal(endpoint.body.price_per_request, 0)
    const files = await api.database.db
      .selectFrom('version_file')
      .select(['path', 'sha256'])
      .where('version_id', '=', first.body.version_id)
      .orderBy('path')
      .execute()
    assert.deepEqual(
      files.map(({ path }) => path),
      ['config.json', 'model.safetensors', 'tokenizer.json'],
    )
  })

  it('lets two accounts import one repository under different names', async () => {
    const other = await api.account()
    const { status, body } = await register(
      { repo_id: 'acme/Tiny-Llama', task_type: 'text-generation' },
      other.key,
    )

    assert.equal(status, 201)
    assert.match(body.model_name, /^hf-acme-tiny-llama--[0-9a-f]{8}$/)
  })

  it('creates one import for concurrent requests', async () => {
    const body = { repo_id: 'acme/own-licence', task_type: 'text-generation' }

    const answers = await Promise.all([register(body), register(body), register(body)])

    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 201],
    )
    assert.equal(new Set(answers.map((answer) => answer.body.endpoint_id)).size, 1)
  })

  it('rejects any other visibility, lifecycle or price', async () => {
    const body = { repo_id: 'acme/Tiny-Llama', task_type: 'text-generation' }
    const others = [
      { visibility: 'private' },
      { lifecycle_status: 'ready' },
      { price_per_request: 1 },
      { task_type: 'feature-extraction' },
    ]
    for (const other of others) {
      assert.equal((await register({ ...body, ...other })).status, 422, JSON.stringify(other))
    }
    assert.equal((await register({ repo_id: 'acme/Tiny-Llama' })).status, 422)
    const same = { visibility: 'public', lifecycle_status: 'candidate', price_per_request: 0 }
    assert.equal((await register({ ...body, ...same })).status, 201)
  })

  it('rejects a gated or incompatible repository with the failing check and the next step', async () => {
    const gated = await register({ repo_id: 'acme/gated', task_type: 'text-generation' })
    const pickle = await register({ repo_id: 'acme/pickle', task_type: 'text-generation' })

    assert.equal(gated.status, 422)
    assert.match(gated.body.error.message, /accept its terms at .*HEARTH_HUB_TOKEN/)
    assert.equal(gated.body.detail[0].type, 'hub_access')
    assert.equal(pickle.status, 422)
    assert.match(pickle.text, /safetensors/)
  })

  it('reads a gated repository with an authorized token, and reports missing access otherwise', async () => {
    for (const [token, passed] of [
      [HUB_TOKEN, true],
      [HUB_TOKEN_WITHOUT_GRANT, false],
    ] as const) {
      await using other = await startApi({
        env: { HEARTH_HUB_ENDPOINT: hub.url, HEARTH_HUB_TOKEN: token },
        database: api.database,
      })
      await lend(accountId, ['acme/gated'])
      const { body } = await other.call('GET', infoPath('acme/gated'), { key })

      const access = body.compatibility.checks.find(({ check }: { check: string }) => check === 'access')
      assert.equal(access.passed, passed, access.message)
    }
  })

  it('receives its token, while its CDN does not', () => {
    const shown = hub.requests.filter(({ headers }) => headers.authorization !== undefined)

    assert.ok(shown.length > 0)
    assert.ok(shown.every(({ line }) => !line.includes('/cdn/')))
  })

  it('answers 503 with different messages when the hub is not configured and when it is unreachable', async () => {
    await using none = await startApi({ database: api.database })
    await using dead = await startApi({
      env: { HEARTH_HUB_ENDPOINT: 'http://127.0.0.1:1' },
      database: api.database,
    })

    const answers = await Promise.all(
      [none, dead].map((one) => one.call('GET', infoPath('acme/gated'), { key })),
    )

    assert.deepEqual(
      answers.map(({ status }) => status),
      [503, 503],
    )
    assert.match(answers[0]!.text, /HEARTH_HUB_ENDPOINT/)
    assert.match(answers[1]!.text, /cannot be reached/)
  })

  it("is unaffected by accounts' endpoints with a colliding name", async () => {
    await buildEndpoint(api.database.db, accountId, { name: 'hf-acme--named' })
    hub.put(llamaRepo('acme/named'))

    const { status, body } = await register({ repo_id: 'acme/named', task_type: 'text-generation' })

    assert.equal(status, 201)
    assert.match(body.model_name, /^hf-acme-named--[0-9a-f]{8}$/)
  })

  it('imports a split GGUF with all of its parts, each pinned by its digest', async () => {
    const parts = {
      'Q4_K_M/m-00001-of-00002.gguf': Buffer.alloc(3_000_000, 1),
      'Q4_K_M/m-00002-of-00002.gguf': Buffer.alloc(2_000_000, 2),
    }
    hub.put(llamaRepo('acme/in-parts', { files: { ...parts, 'm-Q8_0.gguf': Buffer.alloc(9) }, downloads: 0 }))

    const { body: info } = await api.call('GET', infoPath('acme/in-parts'), { key })
    const { status, body } = await register({ repo_id: 'acme/in-parts', task_type: 'text-generation' })

    assert.equal(info.size_mb, 4.77)
    assert.equal(status, 201)
    const files = await api.database.db
      .selectFrom('version_file')
      .select(['path', 'sha256', 'size_bytes'])
      .where('version_id', '=', body.version_id)
      .orderBy('path')
      .execute()
    assert.deepEqual(
      files.map(({ path, size_bytes }) => [path, Number(size_bytes)]),
      Object.entries(parts).map(([path, bytes]) => [path, bytes.length]),
    )
    assert.equal(new Set(files.map(({ sha256 }) => sha256)).size, 2)
  })

  it('rejects weights with a missing part, and names it', async () => {
    const { 'config.json': config, 'model.safetensors': weights } = REPO.files
    assert.ok(config && weights)
    const index = { weight_map: { a: 'first.safetensors', b: 'second.safetensors' } }
    hub.put(
      llamaRepo('acme/no-second', {
        downloads: 0,
        files: {
          'config.json': config,
          'first.safetensors': weights,
          'model.safetensors.index.json': Buffer.from(JSON.stringify(index)),
        },
      }),
    )
    hub.put(
      llamaRepo('acme/no-first', { downloads: 0, files: { 'm-00002-of-00002.gguf': Buffer.alloc(9, 1) } }),
    )
    for (const [repo_id, missing] of [
      ['acme/no-second', 'second.safetensors'],
      ['acme/no-first', 'm-00001-of-00002.gguf'],
    ] as const) {
      const { status, body } = await register({ repo_id, task_type: 'text-generation' })

      assert.equal(status, 422)
      assert.equal(body.detail[0].type, 'hub_weights')
      assert.ok(body.error.message.includes(`lacks ${missing}`), body.error.message)
    }
  })
})
