import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { newId } from '../../../../domain/ids.ts'
import type { NodeSnapshot } from '../../../../domain/placement/node-snapshot.ts'
import { encodeFrame } from '../../../../platform/link/codec.ts'
import { FRAME, type FrameType, MAX_CHUNK, STREAM_CREDIT } from '../../../../schemas/nodes/link.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint, buildRun } from '../../../support/builders/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'
import { gatewayEnv, type GatewayProcess, runGateway } from '../../../support/servers/gateway-process.ts'
import {
  INVENTORY,
  type RawLink,
  type RawNode,
  rawNode,
  reportOf,
} from '../../../support/servers/nodes/raw-node.ts'

const MB = 1024 * 1024
/** The limit for a gateway's memory growth, whatever one node does. */
const GROWTH_MB = 300
/** The limit for another account's response time during an attack; without our bounds it took seconds. */
const LATENCY_MS = 3_000

describe('a hostile node', () => {
  let database: TestDatabase
  let folder: string
  let gateway: GatewayProcess
  let baseUrl: string
  let key: string
  let stranger: string
  let endpoint: EndpointRow
  let node: RawNode
  before(async () => {
    database = await startDatabase()
    folder = await mkdtemp(join(tmpdir(), 'hearth-hostile-'))
    gateway = runGateway({ ...gatewayEnv(database.url, folder), HEARTH_ANSWER_MEMORY_MB: '64' })
    ;({ baseUrl } = await gateway.ready())
    const caller = await account()
    key = caller.key
    stranger = (await account()).key
    endpoint = await buildEndpoint(database.db, caller.accountId, {
      runtime_profile: 'tiny',
      task_type: 'chat',
    })
    node = await rawNode(database.db)
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })

  async function account() {
    const accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'a' }).execute()
    const made = await database.db
      .transaction()
      .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId, name: 'k', role: 'admin' }))
    return { accountId, key: made.key }
  }

  const rssMb = () => {
    const [, kb = '0'] =
      /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8')) ?? []
    return Number(kb) / 1024
  }
  const get = async (path: string, apiKey = stranger) => {
    const began = performance.now()
    const { statusCode, body } = await request(baseUrl + path, { headers: { 'x-api-key': apiKey } })
    const text = await body.text()
    return { status: statusCode, text, ms: performance.now() - began }
  }
  const chat = async (body: object) => {
    const { statusCode, body: answer } = await request(`${baseUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: endpoint.name, messages: [{ role: 'user', content: 'hi' }], ...body }),
      bodyTimeout: 0,
    })
    return { status: statusCode, answer }
  }

  /**
   * Runs an attack while another account reads its lists; checks the gateway's memory growth and its slowest response.
   */
  async function under(attack: () => Promise<void>): Promise<void> {
    const before = rssMb()
    let most = before
    let worst = 0
    let isOver = false
    const watching = (async () => {
      while (!isOver) {
        const { status, ms } = await get('/api/builder/v1/datasets')
        assert.equal(status, 200)
        worst = Math.max(worst, ms)
        most = Math.max(most, rssMb())
        await sleep(50)
      }
    })()
    await attack().finally(() => (isOver = true))
    await watching
    const measurements = `RSS went from ${Math.round(before)} to ${Math.round(most)} MB; the slowest answer took ${Math.round(worst)} ms`
    assert.ok(most - before < GROWTH_MB, measurements)
    assert.ok(worst < LATENCY_MS, measurements)
  }

  const linked = async (): Promise<RawLink> => {
    const link = await node.link(baseUrl, { models: [endpoint.model_key] })
    await until(() => link.frames.some(({ type }) => type === FRAME.hello))
    return link
  }
  /** Keeps writing the same bytes for a while, slightly faster than the gateway reads them. */
  async function flood(link: RawLink, message: Buffer, ms: number): Promise<void> {
    const until = performance.now() + ms
    while (performance.now() < until && link.socket.readyState === 1) {
      for (let i = 0; i < 50 && link.socket.bufferedAmount < 8 * MB; i++) link.socket.send(message)
      await sleep(5)
    }
  }
  const many = (count: number, type: FrameType, stream: number, body: Buffer, meta = '') =>
    Buffer.concat(Array.from({ length: count }, () => encodeFrame(type, stream, meta, body)))

  it('loses its link when it exceeds its stream credit, and the client sees the stream end', async () => {
    using link = await linked()
    const chunk = Buffer.from(`data: ${'x'.repeat(MAX_CHUNK - 8)}\n\n`)
    link.onFrame = ({ type, stream }) => {
      if (type !== FRAME.request) return
      link.send(FRAME.head, stream, { status: 200, content_type: 'text/event-stream' })
      // The client reads nothing, so the gateway grants no credit after the first chunks.
      void flood(link, encodeFrame(FRAME.chunk, stream, '', chunk), 20_000)
    }
    await under(async () => {
      const { answer } = await chat({ stream: true })
      assert.match(await link.closed, /1002 .*granted/)
      answer.destroy()
      answer.on('error', () => {})
    })
  })

  it('gets no more stream credit while the client does not read', async () => {
    using link = await linked()
    let sent = 0
    link.onFrame = ({ type, stream }) => {
      if (type !== FRAME.request) return
      link.send(FRAME.head, stream, { status: 200, content_type: 'text/event-stream' })
      const pump = setInterval(() => {
        while (sent + MAX_CHUNK <= STREAM_CREDIT + link.granted(stream)) {
          link.send(FRAME.chunk, stream, {}, Buffer.from(`data: ${'x'.repeat(MAX_CHUNK - 8)}\n\n`))
          sent += MAX_CHUNK
        }
      }, 5)
      void link.closed.then(() => clearInterval(pump))
    }
    await under(async () => {
      const { answer } = await chat({ stream: true })
      await sleep(1_500)
      assert.ok(sent < 16 * MB, `${sent} bytes were granted`)
      answer.destroy()
      answer.on('error', () => {})
    })
  })

  it('cannot exhaust memory with large answers: the gateway refuses those beyond the budget', async () => {
    using link = await linked()
    const piece = Buffer.alloc(MAX_CHUNK, 'x')
    const opening = Buffer.from('{"choices":[],"fill":"')
    link.onFrame = ({ type, stream }) => {
      if (type !== FRAME.request) return
      link.send(FRAME.head, stream, { status: 200 })
      link.send(FRAME.chunk, stream, {}, opening)
      let sent = opening.length
      let remaining = (6 * MB) / piece.length
      const pump = setInterval(() => {
        for (; remaining > 0 && sent + piece.length <= STREAM_CREDIT + link.granted(stream); remaining--) {
          link.send(FRAME.chunk, stream, {}, piece)
          sent += piece.length
        }
        if (remaining > 0) return
        clearInterval(pump)
        link.send(FRAME.chunk, stream, {}, Buffer.from('"}'))
        link.send(FRAME.end, stream)
      }, 2)
      void link.closed.then(() => clearInterval(pump))
    }
    await under(async () => {
      const answers = await Promise.all(
        Array.from({ length: 24 }, async () => {
          const { status, answer } = await chat({})
          await answer.dump({ limit: 100 * MB })
          return status
        }),
      )
      assert.ok(answers.includes(503), `no chat was rejected: ${answers.join()}`)
      assert.ok(
        answers.every((status) => status === 200 || status === 503),
        answers.join(),
      )
    })
    const { status, answer } = await chat({})
    await answer.dump({ limit: 100 * MB })
    assert.equal(status, 200, 'the memory held by the responses was not released')
  })

  it('cannot block the thread with an answer that has many names; its client gets an error', async () => {
    using link = await linked()
    const names = Array.from({ length: 24_000 }, (_, nth) => `"${nth.toString(36)}":0`)
    const body = Buffer.from(`{"choices":[],${names.join()}}`)
    link.onFrame = ({ type, stream }) => {
      if (type !== FRAME.request) return
      link.send(FRAME.head, stream, { status: 200 })
      for (let at = 0; at < body.length; at += MAX_CHUNK)
        link.send(FRAME.chunk, stream, {}, body.subarray(at, at + MAX_CHUNK))
      link.send(FRAME.end, stream)
    }
    for (const stream of [false, true]) {
      const { status, answer } = await chat({ stream })
      assert.match(await answer.text(), /too many different member names/)
      assert.equal(status, 500)
    }
  })

  const floods: [string, () => Buffer | Promise<Buffer>][] = [
    ['5,000 hellos', () => many(500, FRAME.hello, 0, Buffer.from(JSON.stringify({ inventory: INVENTORY })))],
    [
      '100,000 reports',
      () => many(1_000, FRAME.state, 0, Buffer.from(JSON.stringify({ report: reportOf([{}]) }))),
    ],
    [
      'changes to one model',
      () => many(1_000, FRAME.progress, 0, Buffer.from(JSON.stringify({ model: reportOf([{}]).models[0] }))),
    ],
    ['chunks for unknown streams', () => many(14, FRAME.chunk, 4_000_000, Buffer.alloc(MAX_CHUNK))],
    ['empty chunks', () => many(60_000, FRAME.chunk, 1, Buffer.alloc(0))],
    ['pings', () => many(60_000, FRAME.ping, 0, Buffer.alloc(0))],
    [
      'errors without a stream',
      () => many(10_000, FRAME.error, 9, Buffer.alloc(0), '{"code":"x","message":"y"}'),
    ],
    ['frames of unknown types', () => many(10_000, 99 as FrameType, 1, Buffer.alloc(50))],
    [
      'reports of 10,000 models',
      () =>
        encodeFrame(
          FRAME.state,
          0,
          '',
          Buffer.from(JSON.stringify({ report: reportOf(Array.from({ length: 10_000 }, () => ({}))) })),
        ),
    ],
    [
      'log lines of 1 MB',
      async () => {
        const jobId = await jobOfNode()
        const entry = { job_id: jobId, attempt: 1, seq: 1, at: new Date().toISOString() }
        const body = Buffer.from(JSON.stringify([{ ...entry, message: 'x'.repeat(MB - 400) }]))
        return encodeFrame(FRAME.log, 0, '{"upto":1}', body)
      },
    ],
  ]
  for (const [name, message] of floods) {
    it(`slows down only itself with an endless flood of ${name}`, async () => {
      using link = await linked()
      const bytes = await message()
      await under(() => flood(link, bytes, 4_000))
    })
  }

  it('has at most 1,000 of its reported models stored, with long strings truncated', async () => {
    const ordered = Array.from({ length: 4_000 }, (_, i) => ({ node_id: node.nodeId, model_key: `m-${i}` }))
    await database.db.insertInto('node_model_order').values(ordered).execute()
    using link = await linked()
    const models = Array.from({ length: 4_000 }, (_, i) => ({
      model_key: `m-${i}`,
      state: i < 3_990 ? ('evicted' as const) : ('warm' as const),
      ...(i === 3_999 && { error: '€'.repeat(50_000), extra: 'y'.repeat(1_000) }),
    }))
    link.send(FRAME.state, 0, {}, { report: reportOf([{ model_key: 'k'.repeat(5_000) }, ...models]) })

    const snapshot = async () => {
      const row = await database.db
        .selectFrom('node_state')
        .select('snapshot')
        .where('node_id', '=', node.nodeId)
        .executeTakeFirst()
      return row?.snapshot as NodeSnapshot | undefined
    }
    await until(async () => (await snapshot())?.models.length === 1_000)

    const snapshotModels = (await snapshot())?.models ?? []
    assert.equal(snapshotModels.filter(({ state }) => state === 'warm').length, 10)
    const { error = '', ...last } = snapshotModels.find(({ model_key }) => model_key === 'm-3999') ?? {}
    assert.ok(Buffer.byteLength(error) <= 2_000 && error.endsWith('€ [cut]'), error.slice(-20))
    assert.ok(!('extra' in last))
    assert.ok(gateway.lines.some(({ msg }) => /too many models/.test(msg ?? '')))
  })

  it("cannot block another node's reports with strings that PostgreSQL refuses", async () => {
    const other = await rawNode(database.db)
    using honest = await other.link(baseUrl)
    await database.db
      .insertInto('node_model_order')
      .values({ node_id: node.nodeId, model_key: 'odd' })
      .execute()
    using link = await linked()
    const models = [
      { model_key: 'odd', error: 'a NUL \0' },
      { model_key: 'k\0' },
      { model_key: 'half \ud83d' },
    ]
    const reason = 'half of a character \ud83d'
    const fault = { since: new Date().toISOString(), code: null, reason, 'a name \0': 1 }
    const storedOf = async (nodeId: string) => {
      const states = database.db.selectFrom('node_state').select('snapshot')
      const row = await states.where('node_id', '=', nodeId).executeTakeFirst()
      return row?.snapshot as NodeSnapshot | undefined
    }
    await until(async () => Boolean((await storedOf(other.nodeId)) && (await storedOf(node.nodeId))))

    // The flood ensures that each write has a report from both nodes.
    const flooding = setInterval(
      () => link.send(FRAME.state, 0, {}, { report: reportOf(models, { gpu_fault: fault }) }),
      5,
    )
    try {
      await sleep(200)
      for (const memory_free_mb of [71, 72, 73]) {
        honest.send(FRAME.state, 0, {}, { report: reportOf([], { memory_free_mb }) })
        await until(async () => (await storedOf(other.nodeId))?.memory_free_mb === memory_free_mb)
      }
    } finally {
      clearInterval(flooding)
    }

    const stored = await storedOf(node.nodeId)
    assert.deepEqual(
      stored?.models.map(({ model_key, error }) => [model_key, error]),
      [['odd', 'a NUL \ufffd']],
    )
    assert.equal(stored?.gpu_fault?.reason, 'half of a character \ufffd')
  })

  /** Creates a running job on the node. */
  async function jobOfNode(): Promise<string> {
    const { accountId } = await account()
    const { id } = await buildRun(database.db, accountId, { status: 'running', attempt: 1 })
    await database.db
      .insertInto('lease')
      .values({
        token: newId(),
        kind: 'job',
        subject_id: id,
        account_id: accountId,
        node_id: node.nodeId,
        attempt: 1,
        state: 'active',
        lease_s: 30,
        expires_at: new Date(Date.now() + 600_000),
      })
      .execute()
    return id
  }
})
