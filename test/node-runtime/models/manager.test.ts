import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

describe('model manager', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const state = (node: TestNode, key: string) =>
    node.parts.models.report().find(({ model_key }) => model_key === key)
  const launchers = ({ dir }: TestNode) => readdirSync(join(dir, 'pids'))
  const post = async (node: TestNode, key: string, body: object): Promise<number | undefined> => {
    using use = node.parts.models.use(key)
    const options = { method: 'POST', path: '/infer', body: JSON.stringify(body) } as const
    const answer = await use?.server.pool.request(options)
    await answer?.body.dump()
    return answer?.statusCode
  }
  const isUnavailable = (code: string) => (err: unknown) =>
    err instanceof ModelUnavailableError && err.code === code

  it('loads a model once for concurrent requests', async () => {
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'shared', load_s: 0.2 })
    const heard: string[] = []
    node.parts.models.onChange((model) => heard.push(model.warming_up ? 'warming_up' : model.state))

    await Promise.all(Array.from({ length: 20 }, () => node.parts.models.load(key)))

    assert.equal(launchers(node).length, 1)
    assert.deepEqual(heard.slice(-3), ['loading_model', 'warming_up', 'warm'])
    assert.equal(heard.filter((one) => one === 'loading_model').length, 1)
    assert.equal(node.parts.models.startState(key), 'resident')
  })

  it('reports a model as running while in use, idle afterwards, and warm before its first use', async () => {
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'used' })
    await node.parts.models.load(key)
    assert.equal(state(node, key)?.state, 'warm')

    {
      using _use = node.parts.models.use(key)!
      assert.equal(state(node, key)?.state, 'running')
    }

    assert.equal(state(node, key)?.state, 'idle')
  })

  it('replaces the reservation with the measured peak, and keeps it for the next load', async () => {
    await using node = await startNode(api, { ballastMb: 80 })
    const key = await addModel(api, { name: 'heavy' })

    await node.parts.models.load(key)

    const peak = state(node, key)!.memory_mb
    assert.ok(peak > 80 && peak < 200, `${peak} MB`)
    assert.equal(node.parts.memory.freeMb, 1_000 - peak)
    assert.match(JSON.stringify(readdirSync(node.dir)), /measured\.json/)
  })

  it('evicts the least recently used model when another needs its memory, and only then', async () => {
    await using node = await startNode(api, { memoryMb: 230, ballastMb: 70 })
    const keys = await Promise.all(['a', 'b', 'c'].map((name) => addModel(api, { name }, { memoryMb: 90 })))
    const [a = '', b = '', c = ''] = keys
    await node.parts.models.load(a)
    const startedAt = performance.now()
    await node.parts.models.load(b)
    // No load evicts a model before it has been loaded for as long as its own load took.
    await sleep(performance.now() - startedAt)
    node.parts.models.use(a)?.[Symbol.dispose]()

    await node.parts.models.load(c)

    assert.equal(state(node, a)?.state, 'idle')
    assert.equal(state(node, b)?.state, 'evicted')
    assert.equal(node.parts.models.startState(b), 'cached')
    assert.equal(launchers(node).length, 2)
  })

  it('never evicts a busy model', async () => {
    await using node = await startNode(api, { memoryMb: 200, ballastMb: 70 })
    const [a, b] = [
      await addModel(api, { name: 'busy' }, { memoryMb: 90 }),
      await addModel(api, { name: 'waiting' }, { memoryMb: 150 }),
    ]
    await node.parts.models.load(a)
    using _use = node.parts.models.use(a)!

    await assert.rejects(node.parts.models.load(b), isUnavailable('no_capacity'))

    assert.equal(state(node, a)?.state, 'running')
  })

  it('keeps a pinned model loaded, whatever else needs its memory', async () => {
    const pinned = await addModel(api, { name: 'pinned' }, { memoryMb: 90 })
    await using node = await startNode(api, { memoryMb: 200, ballastMb: 70, pinned: [pinned] })
    const other = await addModel(api, { name: 'other' }, { memoryMb: 150 })

    await until(() => state(node, pinned)?.state === 'warm')
    await assert.rejects(node.parts.models.load(other), isUnavailable('no_capacity'))

    assert.equal(state(node, pinned)?.state, 'warm')
  })

  it('lets a load run as long as it makes progress, and ends one that stalls', async () => {
    await using node = await startNode(api, { startTimeoutS: 2 })
    const [slow, stuck] = [
      await addModel(api, { name: 'slow', steps: 7 }),
      await addModel(api, { name: 'stuck', load_s: 30 }),
    ]

    await node.parts.models.load(slow)
    await assert.rejects(node.parts.models.load(stuck), /made no progress for 2 s/)

    assert.equal(node.parts.driver.running.length, 1)
  })

  it('explains a failed load and waits before the next try', async () => {
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'broken', broken: true })

    await assert.rejects(node.parts.models.load(key), /these weights are broken/)
    await assert.rejects(node.parts.models.load(key), isUnavailable('backing_off'))

    assert.match(state(node, key)?.error ?? '', /these weights are broken/)
    assert.equal(node.parts.memory.freeMb, 1_000)
    await sleep(1_050)
    await assert.rejects(node.parts.models.load(key), isUnavailable('load_failed'))
  })

  it("truncates the error of a server that writes endlessly, and keeps the node's link open", async () => {
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'endless', line_mb: 3 })

    await assert.rejects(node.parts.models.load(key), isUnavailable('load_failed'))

    const error = state(node, key)?.error ?? ''
    assert.match(error, /status 1 before it was ready. x+/)
    assert.ok(error.length <= 2_000, `${error.length} characters`)
    node.parts.links.reportNow()
    await sleep(500)
    assert.equal(node.parts.links.openCount, 1)
    const snapshot = () => api.services.links.snapshot().find(({ node_id }) => node_id === node.nodeId)
    await until(
      () => snapshot()?.models.some((model) => model.model_key === key && Boolean(model.error)) ?? false,
    )
  })

  it('needs no gateway to load models on its disk, even after a restart', async () => {
    const first = await startNode(api)
    const key = await addModel(api, { name: 'kept' })
    await first.parts.models.load(key)
    await first.parts.models[Symbol.asyncDispose]()
    assert.deepEqual(launchers(first), [])

    await using second = await startNode(api, { dir: first.dir })

    assert.equal(state(second, key)?.state, 'evicted')
    await second.parts.models.load(key)
    assert.equal(second.parts.models.startState(key), 'resident')
    await first[Symbol.asyncDispose]()
  })

  it('resumes a broken download, and rejects bytes with another digest', async () => {
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'resumed', padding: 'p'.repeat(500_000) })
    const spec = await node.parts.control.modelSpec(key)
    const blob = join(node.dir, 'weights', 'blobs', spec.files[0]!.sha256)
    const progress: (number | undefined)[] = []
    node.parts.models.onChange(({ bytes_downloaded }) => progress.push(bytes_downloaded))
    await node.parts.models.load(await addModel(api, { name: 'first' }))
    writeFileSync(`${blob}.part`, JSON.stringify({ name: 'resumed' }).slice(0, -1))

    await node.parts.models.load(key)

    assert.equal(node.parts.models.startState(key), 'resident')
    assert.ok(progress.includes(spec.files[0]!.size_bytes))
  })

  it('frees disk by removing the least recently used model when its quota is full', async () => {
    await using node = await startNode(api, { cacheMb: 1 })
    const padding = (letter: string) => letter.repeat(600_000)
    const old = await addModel(api, { name: 'old', padding: padding('a') })
    const fresh = await addModel(api, { name: 'fresh', padding: padding('b') })
    await node.parts.models.load(old)
    await assert.rejects(node.parts.models.load(fresh), /no room on this node's disk/)
    const [server] = node.parts.driver.running
    await server?.stop({ graceMs: 0 })
    await until(() => state(node, old)?.state === 'evicted')
    await sleep(1_050)

    await node.parts.models.load(fresh)

    assert.equal(state(node, old), undefined)
    assert.equal(node.parts.models.startState(fresh), 'resident')
  })

  it('unloads a model that was idle for the configured time, but not a pinned or busy one', async () => {
    const [pinned, busy, idle] = [
      await addModel(api, { name: 'pinned' }),
      await addModel(api, { name: 'busy' }),
      await addModel(api, { name: 'idle' }),
    ]
    await using node = await startNode(api, { idleUnloadS: 1, pinned: [pinned] })
    const { models } = node.parts
    await Promise.all([pinned, busy, idle].map((key) => models.load(key)))
    using _use = models.use(busy)!

    await until(() => state(node, idle)?.state === 'evicted')

    assert.equal(models.use(idle), undefined)
    assert.equal(state(node, busy)?.state, 'running')
    assert.equal(models.startState(pinned), 'resident')
    // A request during the unload waits for its end, and then loads the model again.
    await models.load(idle)
    assert.equal(models.startState(idle), 'resident')
  })

  it('frees the files of deleted models, except those pinned, loading or in use', async () => {
    const keys: string[] = []
    for (const name of ['pinned', 'used', 'loading', 'cached']) {
      keys.push(await addModel(api, { name, load_s: name === 'loading' ? 1 : 0 }))
    }
    const [pinned = '', used = '', loading = '', cached = ''] = keys
    await using node = await startNode(api, { pinned: [pinned] })
    const { models } = node.parts
    await Promise.all([pinned, used, cached].map((key) => models.load(key)))
    {
      using _use = models.use(used)!
      const load = models.load(loading)

      await models.disk.forget([...keys, 'unknown'])

      assert.equal(state(node, cached), undefined)
      await load
    }
    const folders = () => readdirSync(join(node.dir, 'weights', 'models')).toSorted()
    assert.deepEqual(folders(), [pinned, used, loading].toSorted())

    await models.disk.forget(keys)

    assert.deepEqual(folders(), [pinned])
    assert.equal(readdirSync(join(node.dir, 'weights', 'blobs')).length, 1)
    await models.load(cached)
    assert.equal(models.startState(cached), 'resident')
  })

  it('never treats a tool as a model', async () => {
    await using node = await startNode(api)

    await assert.rejects(node.parts.models.load('tool:calculator'), isUnavailable('no_capacity'))

    assert.equal(state(node, 'tool:calculator'), undefined)
  })

  it('probes the GPUs when a server loses its own, and loads the model again', async () => {
    await using node = await startNode(api)
    let suspicions = 0
    node.parts.gpuHealth.suspect = () => void suspicions++
    const key = await addModel(api, { name: 'lost' })
    await node.parts.models.load(key)

    assert.equal(await post(node, key, { lose_gpu: true }), 500)

    await until(() => suspicions > 0 && node.parts.models.startState(key) === 'cached')
    assert.match(state(node, key)?.error ?? '', /status 69\. it was placed on a GPU that it cannot use: Acc/)
    await sleep(1_050)
    await node.parts.models.load(key)
    assert.deepEqual([await post(node, key, { instances: [1] }), suspicions], [200, 1])
  })

  it("restarts a server that fails every request, but not one that only fails one caller's inputs", async function () {
    this.timeout(60_000)
    const pinned = [await addModel(api, { name: 'broken' }), await addModel(api, { name: 'picky' })]
    const [broken = '', picky = ''] = pinned
    // This also sets the interval of the upkeep.
    await using node = await startNode(api, { pinned, idleUnloadS: 1 })
    const errors = new Set<string | undefined>()
    node.parts.models.onChange(({ error }) => errors.add(error))
    await until(() => pinned.every((key) => state(node, key)?.state === 'warm'))
    const serverOf = (key: string) => {
      using use = node.parts.models.use(key)!
      return use.server
    }
    const server = serverOf(picky)

    await post(node, broken, { break: true })
    for (let n = 0; n < 4; n++) assert.equal(await post(node, broken, { instances: [n] }), 500)
    let failures = 0
    await until(async () => {
      if ((await post(node, picky, { fail: true })) === 500) failures++
      // A request may reach the server while it is exiting.
      return (await post(node, broken, { instances: [1] }).catch(() => 0)) === 200
    }, 20_000)

    const reason =
      'the node ended the model server: its requests failed in a row, and so did a probe: its first inference'
    assert.ok(
      [...errors].some((error) => error?.startsWith(reason)),
      JSON.stringify([...errors]),
    )
    assert.equal(serverOf(picky), server)
    assert.equal(await post(node, picky, { instances: [1] }), 200)
    const counted = await server.pool.request({ method: 'GET', path: '/counts' })
    const { done } = (await counted.body.json()) as { done: number }
    // The load and one probe; a slow machine adds a second probe after ten seconds.
    const probes = done - failures - 1
    assert.ok(failures >= 5 && probes >= 2 && probes <= 3, `${failures} failures, ${probes} probes`)
  })

  it('detects a hanging server while requests wait for its only connection, and spares a busy one', async () => {
    await using node = await startNode(api, { concurrency: 1 })
    const key = await addModel(api, { name: 'hanging' })
    await node.parts.models.load(key)
    using use = node.parts.models.use(key)!
    const { server } = use
    const post = (fields: object) =>
      server.pool.request({ method: 'POST', path: '/infer', body: JSON.stringify(fields) })
    const busy = post({ instances: [1], wait_s: 3 })
    assert.equal(await server.isHealthy(2_000), true)
    assert.equal((await busy).statusCode, 200)

    const pids = await server.pids()
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const waiting = post({ instances: [1] }).catch(() => undefined)
    const startedAt = performance.now()
    assert.equal(await server.probeAgain(300), 'unanswered')
    assert.equal(await server.isHealthy(300), false)

    assert.ok(performance.now() - startedAt < 5_000)
    await server.end('it hangs')
    await waiting
  })

  it('stops every model server with the node', async () => {
    const node = await startNode(api)
    await node.parts.models.load(await addModel(api, { name: 'last' }))
    assert.equal(node.parts.driver.running.length, 1)

    const startedAt = performance.now()
    await node[Symbol.asyncDispose]()

    assert.equal(node.parts.driver.running.length, 0)
    assert.ok(performance.now() - startedAt < 10_000)
  })
})
