import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelLoads } from '../../../../api/inference/model-loads.ts'
import { PlacementIndex } from '../../../../domain/placement/placement.ts'
import type { NodeEnvironment } from '../../../../schemas/nodes/node.ts'
import { type SlowEnvironment, slowEnvironment } from '../../../support/assertions/slow-index.ts'
import { until } from '../../../support/assertions/until.ts'
import { loadPromised } from '../../../support/builders/cohorts/promised-loads.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'
import { ChatApi, FAKE_LLM_SERVER, startChatNode } from '../../../support/servers/chat-api.ts'

const CLIENTS = 30

describe('a chat on a node whose environment is not installed yet', function () {
  this.timeout(240_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const environmentsOf = async (nodeId: string): Promise<NodeEnvironment[]> => {
    const { body } = await api.call('GET', '/api/v1/admin/nodes', { key: OPERATIONS_KEY })
    const nodes: { node_id: string; environments: NodeEnvironment[] }[] = body.nodes
    return nodes.find(({ node_id }) => node_id === nodeId)?.environments ?? []
  }

  async function open(environment: SlowEnvironment, prepare: string): Promise<ChatApi> {
    const { locksDir, cacheDir } = environment
    const node = await startChatNode(api, {
      server: { ...FAKE_LLM_SERVER, pythonEnv: 'slow' },
      prepare,
      locksDir,
      cacheDir,
    })
    await until(() => api.services.links.snapshot().some(({ environments }) => environments?.length))
    return new ChatApi(api, node, await api.account())
  }

  /** Stores the duration of an earlier installation on this machine. */
  const measured = (cacheDir: string, slow: number) => {
    mkdirSync(cacheDir, { recursive: true })
    writeFileSync(join(cacheDir, 'install-times.json'), JSON.stringify({ slow }))
  }

  it('is answered, for every client, when the installation takes less than the maximum wait', async () => {
    using folder = temporaryFolder()
    await using environment = await slowEnvironment(folder.path, 2_000)
    const chat = await open(environment, 'none')
    await using _node = chat.node
    await using _worker = loadPromised(chat)
    measured(environment.cacheDir, 4)
    await sleep(1_500)
    const endpoint = await chat.cold({ name: 'patient' })
    await chat.measured(endpoint, 'cold', 40_000)
    await chat.measured(endpoint, 'cached', 40_000)

    const answers = await Promise.all(Array.from({ length: CLIENTS }, () => chat.chat(endpoint.id)))

    assert.deepEqual([...new Set(answers.map(({ status, text }) => (status === 200 ? 200 : text)))], [200])
    assert.equal(environment.fetched, 1)
    const { mean_ms } = await api.database.db
      .selectFrom('load_time')
      .select('mean_ms')
      .where('model_key', '=', endpoint.model_key)
      .where('start_state', '=', 'cold')
      .executeTakeFirstOrThrow()
    assert.equal(mean_ms, 40_000, 'the load time must not include the installation of the environment')
    // The state that operators see is stored at intervals.
    await until(async () => (await environmentsOf(chat.node.nodeId))[0]?.state === 'ready')
  })

  it('gets 503 with Retry-After immediately when the installation takes longer than the maximum wait', async () => {
    using folder = temporaryFolder()
    await using environment = await slowEnvironment(folder.path, 2_000)
    const chat = await open(environment, 'none')
    await using _node = chat.node
    await using _worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'hasty' })
    await chat.measured(endpoint, 'cold', 1_000)
    const began = performance.now()

    const answers = await Promise.all(
      Array.from({ length: CLIENTS }, (_, i) => chat.chat(endpoint.id, { stream: i % 2 === 0 })),
    )

    assert.ok(performance.now() - began < 5_000)
    for (const { status, headers, body } of answers) {
      assert.equal(status, 503)
      assert.equal(body.error.code, 'model_cold')
      assert.match(body.error.message, /installs the environment slow.*in about \d+ s/)
      const seconds = Number(headers['retry-after'])
      assert.ok(seconds >= 100 && seconds <= 125, `${seconds} s`)
    }
    // The rejected request has started the installation.
    await until(async () => (await chat.chat(endpoint.id)).status === 200, 200_000)
    assert.equal(environment.fetched, 1)
  })

  it("shows the installation in an async task's progress, and excludes it from the load time", async () => {
    using folder = temporaryFolder()
    await using environment = await slowEnvironment(folder.path, 2_000)
    const chat = await open(environment, 'none')
    await using _node = chat.node
    const { key } = chat.caller
    const endpoint = await chat.cold({ name: 'queued' })
    const { body } = await api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
      key,
      body: { input: { messages: [{ role: 'user', content: 'hi' }] }, sync: false },
    })
    const task = async () => (await api.call('GET', `/api/builder/v1/tasks/${body.task_id}`, { key })).body
    await api.database.db
      .updateTable('task')
      .set({ status: 'claimed', node_id: chat.node.nodeId })
      .where('id', '=', body.task_id)
      .execute()

    const loading = chat.node.parts.models.load(endpoint.model_key)

    await until(async () => (await task()).status_detail?.progress_pct > 0)
    const { status, status_detail } = await task()
    assert.equal(status, 'preparing')
    assert.equal(status_detail.status, 'preparing')
    assert.equal(status_detail.metadata.environment, 'slow')
    assert.ok(status_detail.metadata.eta_seconds > 0)
    assert.match(
      status_detail.metadata.message,
      /^installing the environment slow for this model, .* about \d+ minutes? left$/,
    )
    await loading
    assert.ok(chat.node.parts.models.delayMs(endpoint.model_key) > 1_000)
    await until(async () => (await task()).status_detail?.status === 'running')
  })

  it('finds the environment installed when the node has prepared it in the background', async () => {
    using folder = temporaryFolder()
    await using environment = await slowEnvironment(folder.path, 1_000)
    const chat = await open(environment, 'slow')
    await using _node = chat.node
    const seen = new Set<string>()

    await until(async () => {
      const [slow] = await environmentsOf(chat.node.nodeId)
      if (slow) seen.add(slow.state)
      if (slow?.state === 'installing') assert.ok((slow.eta_s ?? 0) > 0 && (slow.progress ?? 2) <= 1)
      return slow?.state === 'ready'
    }, 200_000)

    assert.ok(seen.has('installing'), [...seen].join())
  })

  it('does not count the installation toward its wait, and then waits the usual time', async () => {
    const { db, log } = api.services
    const placement = new PlacementIndex()
    const slow = { name: 'slow', profiles: ['tiny'], state: 'installing' as const, progress: 0.9, eta_s: 0 }
    const node = {
      node_id: 'n',
      account_id: 'a',
      sharing: 'shared' as const,
      hardware: 'cpu' as const,
      profiles: ['tiny'],
      cpus: 1,
      memory_total_mb: 100,
      memory_free_mb: 100,
      load: 0,
      draining: false,
      models: [],
    }
    placement.put({ ...node, environments: [slow] })
    using loads = new ModelLoads({
      db,
      log,
      links: { placement, onModel: () => () => {} },
      outbox: { poke() {} },
    })
    const began = performance.now()
    let ended = 0
    const need = { model_key: 'm', account_id: 'a', runtime_profile: 'tiny', memory_mb: 1 }
    const waiting = loads
      .wait(need, { timeoutMs: 300, bytes: 0, signal: new AbortController().signal })
      .finally(() => (ended = performance.now() - began))
    waiting.catch(() => {})

    await sleep(2_000)
    assert.equal(ended, 0, 'the wait must continue while the environment is being installed')
    placement.put({ ...node, environments: [{ ...slow, state: 'ready' }] })
    await assert.rejects(waiting, /was not loaded within 0\.3 s/)
    assert.ok(ended < 20_000, `${ended} ms`)

    placement.put({ ...node, environments: [{ ...slow, state: 'failed', eta_s: 9, error: 'no disk' }] })
    const again = async () =>
      loads.wait(need, { timeoutMs: 300, bytes: 0, signal: new AbortController().signal })
    await assert.rejects(again, /could not install the environment slow.*no disk/)
  })
})
