import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import WebSocket from 'ws'
import type { NodeResponse } from '../../../../api/gateway/links/buffered-response.ts'
import { LinkError } from '../../../../api/gateway/links/link-request.ts'
import { recallStages } from '../../../../db/repositories/cohorts/stage-leases.ts'
import { openLease } from '../../../../db/repositories/nodes/leases.ts'
import { newId } from '../../../../domain/ids.ts'
import type { NodeModel } from '../../../../schemas/nodes/node.ts'
import { SOON_MS } from '../../../support/assertions/until.ts'
import { buildCohortRows } from '../../../support/builders/cohorts/cohort-rows.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../../support/servers/nodes/node.ts'

describe('a link', () => {
  let api: TestApi
  let node: TestNode
  let model: string
  before(async () => {
    api = await startApi()
    node = await startNode(api)
    model = await addModel(api, { name: 'echo' })
    await node.parts.models.load(model)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
  })

  const ask = (
    body: unknown,
    {
      nodeId = node.nodeId,
      ...options
    }: { nodeId?: string; deadlineMs?: number; signal?: AbortSignal; path?: string } = {},
  ) =>
    api.services.links.ask(nodeId, {
      accountId: newId(),
      modelKey: model,
      path: '/infer',
      body: Buffer.from(JSON.stringify(body)),
      ...options,
    })
  const json = ({ body }: NodeResponse) => JSON.parse(body.toString()) as Record<string, unknown>
  const serverCounts = async () => {
    using use = node.parts.models.use(model)!
    const { body } = await use.server.pool.request({ method: 'GET', path: '/stats' })
    return (await body.json()) as { in_flight: number; left: number; done: number }
  }

  it('carries a request to a model and returns its short answer', async () => {
    const answer = await ask({ instances: [1, 2] })

    assert.equal(answer.head.status, 200)
    assert.equal(answer.head.contentType, 'application/json')
    assert.deepEqual(json(answer), { predictions: [1, 2], weights: 'echo' })
  })

  it('passes on the status and body of a refusal', async () => {
    const answer = await ask({ refuse: 'no such column' })

    assert.equal(answer.head.status, 422)
    assert.deepEqual(json(answer), { error: { message: 'no such column' } })
  })

  it('carries bodies far larger than one frame in both directions', async () => {
    const instances = Array.from({ length: 200_000 }, (_, i) => i)

    const answer = await ask({ instances })

    assert.deepEqual(json(answer)['predictions'], instances)
  })

  it('carries hundreds of concurrent requests', async () => {
    const count = 300
    await using wide = await startNode(api, { concurrency: count })
    await wide.parts.models.load(model)

    const answers = await Promise.all(
      Array.from({ length: count }, (_, i) => ask({ instances: [i] }, { nodeId: wide.nodeId })),
    )

    assert.deepEqual(
      answers.map((answer) => json(answer)['predictions']),
      answers.map((_, i) => [i]),
    )
  })

  it('reports a cold model without sending the request to the node', async () => {
    const other = await addModel(api, { name: 'never-loaded' })

    await assert.rejects(
      api.services.links.ask(node.nodeId, {
        accountId: newId(),
        modelKey: other,
        path: '/infer',
        body: Buffer.from('{}'),
      }),
      (err) => err instanceof LinkError && err.code === 'model_cold',
    )
  })

  it('reports link_lost for a node without a link', async () => {
    await assert.rejects(
      api.services.links.ask(newId(), {
        accountId: newId(),
        modelKey: model,
        path: '/infer',
        body: Buffer.from('{}'),
      }),
      (err) => err instanceof LinkError && err.code === 'link_lost',
    )
  })

  it('passes a stream on chunk by chunk as it is produced', async () => {
    const heard: { at: number; text: string }[] = []
    await new Promise<void>((resolve, reject) => {
      api.services.links.request(
        node.nodeId,
        {
          accountId: newId(),
          modelKey: model,
          path: '/stream',
          body: Buffer.from('{"chunks":5,"bytes":20,"gap_s":0.05}'),
        },
        {
          onHead: ({ status, contentType }) =>
            heard.push({ at: performance.now(), text: `${status} ${contentType}` }),
          onChunk: (chunk) =>
            heard.push({ at: performance.now(), text: chunk.toString().replace(/x+$/, '') }),
          onEnd: resolve,
          onError: reject,
        },
      )
    })

    assert.deepEqual(
      heard.map(({ text }) => text),
      ['200 text/event-stream', '0:', '1:', '2:', '3:', '4:'],
    )
    assert.ok(heard[5]!.at - heard[1]!.at > 150)
  })

  it('applies backpressure only to the stream with the slow reader', async () => {
    let received = 0
    const ended = Promise.withResolvers<void>()
    const body = Buffer.from('{"chunks":300,"bytes":65536,"content_type":"application/octet-stream"}')
    const exchange = api.services.links.request(
      node.nodeId,
      { accountId: newId(), modelKey: model, path: '/stream', body },
      {
        onHead: () => exchange.pause(),
        onChunk: (chunk) => void (received += chunk.length),
        onEnd: ended.resolve,
        onError: ended.reject,
      },
    )
    await sleep(300)
    const whilePaused = received

    for (let i = 0; i < 50; i++) await ask({ instances: [i] })

    assert.ok(whilePaused <= 512 * 1024, `${whilePaused} bytes came although the reader had paused`)
    assert.equal(received, whilePaused)
    exchange.resume()
    await ended.promise
    assert.equal(received, 300 * 65_536)
  })

  it('stops the model server within a second when the caller disconnects', async () => {
    const before = await serverCounts()
    const disconnect = new AbortController()
    const pendingAnswer = ask({ wait_s: 30 }, { signal: disconnect.signal })
    await until(async () => (await serverCounts()).in_flight === before.in_flight + 1)

    disconnect.abort()

    await assert.rejects(pendingAnswer, (err) => err instanceof LinkError && err.code === 'cancelled')
    await until(async () => (await serverCounts()).left === before.left + 1, SOON_MS)
  })

  it('aborts a request at its deadline and stops the model server', async () => {
    const before = await serverCounts()

    await assert.rejects(
      ask({ wait_s: 30 }, { deadlineMs: 200 }),
      (err) => err instanceof LinkError && err.code === 'timeout',
    )

    await until(async () => (await serverCounts()).left === before.left + 1)
  })

  it('drops queued requests when their callers disconnect', async () => {
    const before = await serverCounts()
    const disconnect = new AbortController()
    const pendingAnswers = Promise.allSettled(
      Array.from({ length: 20 }, () => ask({ wait_s: 30 }, { signal: disconnect.signal })),
    )
    // Eight are being served, and twelve are queued behind them.
    await sleep(200)

    disconnect.abort()

    assert.ok((await pendingAnswers).every(({ status }) => status === 'rejected'))
    await until(async () => (await serverCounts()).in_flight === 0)
    assert.ok((await serverCounts()).left - before.left <= 20)
    assert.equal((await ask({ instances: [1] })).head.status, 200)
  })

  it('reports an internal error when a model server dies, and reports the model as evicted', async () => {
    const mortal = await addModel(api, { name: 'mortal' })
    await node.parts.models.load(mortal)
    await until(() => stateOf(mortal)?.state === 'warm')

    await assert.rejects(
      api.services.links.ask(node.nodeId, {
        accountId: newId(),
        modelKey: mortal,
        path: '/infer',
        body: Buffer.from('{"die":1}'),
      }),
      (err) => err instanceof LinkError && err.code === 'internal',
    )

    await until(() => stateOf(mortal)?.state === 'evicted')
    assert.match(stateOf(mortal)?.error ?? '', /told to die/)
  })

  it('notifies gateways of each model state, and workers through the database', async () => {
    let steps = ''
    let heard: string[] = []
    const stop = api.services.links.onModel((_nodeId, { model_key, state }) => {
      if (model_key === steps) heard.push(state)
    })

    // On a busy machine the download of these few bytes may end before the node reports it.
    for (let attempt = 0; attempt < 5 && !heard.includes('downloading_model'); attempt++) {
      heard = []
      steps = await addModel(api, { name: `steps-${attempt}` })
      await node.parts.models.load(steps)
      await until(() => heard.at(-1) === 'warm')
    }

    stop()
    assert.deepEqual([...new Set(heard)], ['downloading_model', 'loading_model', 'warm'])
    await until(async () => {
      const row = await api.database.db
        .selectFrom('node_state')
        .select('snapshot')
        .where('node_id', '=', node.nodeId)
        .executeTakeFirst()
      const models = (row?.snapshot['models'] ?? []) as NodeModel[]
      return models.some(({ model_key, state }) => model_key === steps && state === 'warm')
    })
  })

  const stateOf = (key: string) =>
    api.services.links
      .snapshot()
      .find(({ node_id }) => node_id === node.nodeId)
      ?.models.find(({ model_key }) => model_key === key)

  it('delivers a cancellation to the work it is meant for', async () => {
    const jobId = newId()
    using work = node.parts.work.begin(jobId)

    api.services.links.cancelJob(jobId)

    await until(() => work.signal.aborted)
  })

  it('recalls one attempt at a stage and leaves the next one running', async () => {
    const { db } = api.database
    const [stageId] = (await buildCohortRows(api, [])).stages
    const { accountId } = await api.account()
    const { nodeId } = node
    const lease = { kind: 'stage', subjectId: stageId, accountId, nodeId, leaseS: 30 } as const
    using work = node.parts.work.begin(stageId)
    const recalled = (attempt: number) =>
      db.transaction().execute(async (trx) => {
        assert.equal((await openLease(trx, lease))?.attempt, attempt)
        await recallStages(trx, [stageId])
      })

    // The node has ended the first attempt itself, and is running the second one when the recall arrives.
    work.claimed(2)
    await recalled(1)
    await sleep(300)
    const afterFirst = work.signal.aborted
    await recalled(2)
    await until(() => work.signal.aborted)

    assert.equal(afterFirst, false)
  })

  describe('signatures', () => {
    const LINK = '/api/v1/nodes/link'
    const signed = (path = LINK, method = 'GET') => node.parts.identity.sign(method, path)
    const handshake = (headers: Record<string, string>, path = LINK) =>
      new Promise<number>((resolve, reject) => {
        const socket = new WebSocket(api.baseUrl.replace('http', 'ws') + path, {
          headers,
          perMessageDeflate: false,
        })
        socket.on('open', () => {
          socket.close()
          resolve(101)
        })
        socket.on('unexpected-response', (_request, { statusCode = 0 }) => {
          socket.terminate()
          resolve(statusCode)
        })
        socket.on('error', reject)
      })
    const spec = async (headers: Record<string, string>, path: string) =>
      (await request(api.baseUrl + path, { headers })).statusCode

    it('are rejected when replayed, on the link and on routes', async () => {
      const path = `/api/v1/nodes/models/${model}`
      const headers = signed(path)
      assert.equal(await spec(headers, path), 200)
      assert.equal(await spec(headers, path), 401)

      const hello = signed()
      assert.equal(await handshake(hello), 101)
      assert.equal(await handshake(hello), 401)
    })

    it('are rejected for another path, account, time or key', async () => {
      const path = `/api/v1/nodes/models/${model}`
      assert.equal(await spec(signed(`${path}?x=1`), path), 401)
      assert.equal(await spec({ ...signed(path), 'x-account-id': newId() }, path), 401)
      assert.equal(
        await spec({ ...signed(path), 'x-node-timestamp': String(Date.now() - 301_000) }, path),
        401,
      )
      assert.equal(
        await spec({ ...signed(path), 'x-node-signature': Buffer.alloc(64).toString('base64') }, path),
        401,
      )
      assert.equal(await spec({ ...signed(path), 'x-node-id': newId() }, path), 401)
    })

    it('are not required on other paths', async () => {
      assert.equal(await handshake(signed('/api/v1/other'), '/api/v1/other'), 404)
    })
  })
})
