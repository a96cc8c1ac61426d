import assert from 'node:assert/strict'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket from 'ws'
import { LinkError } from '../../../../api/gateway/links/link-request.ts'
import * as nodeReportRepository from '../../../../db/repositories/nodes/reports.ts'
import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { newId } from '../../../../domain/ids.ts'
import { encodeFrame } from '../../../../platform/link/codec.ts'
import { FRAME, type FrameType } from '../../../../schemas/nodes/link.ts'
import { decodeFrames } from '../../../support/builders/link-frames.ts'
import { type Answer, type AnyBody, startApi, type TestApi } from '../../../support/servers/api.ts'
import { startNode, type TestNode, until } from '../../../support/servers/nodes/node.ts'

describe('logs and losses over the link', () => {
  let api: TestApi
  let node: TestNode
  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
  })

  /** Creates a running job whose attempts are all on one node. */
  async function addJob({ nodeId = node.nodeId, attempts = 1 } = {}): Promise<string> {
    const { db } = api.database
    const { accountId } = await api.account()
    const id = newId()
    await db
      .insertInto('training_run')
      .values({
        id,
        account_id: accountId,
        job_type: 'training',
        job_name: 'job',
        status: 'running',
        model_config_id: 'tabular-regression',
        hyperparameters: '{}',
        operating_mode: 'balanced',
        hardware_preference: 'auto',
        task_queue: 'train.cpu',
        config_digest: id,
        attempt: attempts,
      })
      .execute()
    for (let attempt = 1; attempt <= attempts; attempt++) {
      await db
        .insertInto('lease')
        .values({
          token: newId(),
          kind: 'job',
          subject_id: id,
          account_id: accountId,
          node_id: nodeId,
          attempt,
          state: attempt === attempts ? 'active' : 'failed',
          lease_s: 30,
          expires_at: new Date(Date.now() + 30_000),
        })
        .execute()
    }
    return id
  }

  const linesOf = async (jobId: string) => {
    const rows = await api.database.db
      .selectFrom('job_log')
      .select('message')
      .where('job_id', '=', jobId)
      .orderBy('attempt')
      .orderBy('seq')
      .execute()
    return rows.map(({ message }) => message)
  }
  const flushed = () => node.parts.spool.flush({ timeoutMs: 5_000 })

  it('are stored in order', async () => {
    const jobId = await addJob()
    const report = node.parts.spool.job(jobId, 1)

    report.log('first')
    report.metric(0, { train_loss: 2.5, val_loss: 3 })
    report.log('second, with a \0 in it')

    assert.equal(await flushed(), true)
    assert.deepEqual(await linesOf(jobId), ['first', 'second, with a \uFFFD in it'])
    const epochs = await api.database.db
      .selectFrom('job_epoch')
      .selectAll()
      .where('job_id', '=', jobId)
      .execute()
    assert.deepEqual(
      epochs.map(({ epoch, train_loss, val_loss }) => ({ epoch, train_loss, val_loss })),
      [{ epoch: 0, train_loss: 2.5, val_loss: 3 }],
    )
  })

  it("show each epoch's losses while a run is in progress, and after it has failed or been cancelled", async () => {
    const { key, accountId } = await api.account()
    const { db } = api.database
    for (const status of ['running', 'failed', 'cancelled'] as const) {
      const jobId = await addJob()
      await db
        .updateTable('training_run')
        .set({ status, account_id: accountId })
        .where('id', '=', jobId)
        .execute()
      const report = node.parts.spool.job(jobId, 1)
      const plain = { train_loss: 2, val_loss: null }
      const evaluated = { train_loss: 1, val_loss: 0.5, eval_loss: 0.5, eval_perplexity: 1.65 }
      report.metric(1, plain)
      report.metric(2, evaluated)
      await flushed()

      const { body } = await api.call('GET', `/api/builder/v1/training/runs/${jobId}/metrics`, { key })

      assert.deepEqual(body.metrics.epochs, [
        { epoch: 1, ...plain },
        { epoch: 2, ...evaluated },
      ])
    }
  })

  it('are delivered exactly once across link drops', async () => {
    const jobId = await addJob()
    const report = node.parts.spool.job(jobId, 1)
    const logLines: string[] = []

    for (let round = 0; round < 20; round++) {
      for (let i = 0; i < 100; i++) {
        logLines.push(`line ${logLines.length}`)
        report.log(logLines.at(-1)!)
      }
      if (round % 4 === 3) api.services.links.disconnect(node.nodeId, 'a test broke it')
      await sleep(25)
    }

    assert.equal(await flushed(), true)
    assert.deepEqual(await linesOf(jobId), logLines)
  })

  it('from a later attempt replace those from an earlier one, never the reverse', async () => {
    const jobId = await addJob({ attempts: 2 })
    const losses = (train_loss: number) => ({ train_loss, val_loss: null })
    node.parts.spool.job(jobId, 2).metric(7, losses(1))
    await flushed()
    node.parts.spool.job(jobId, 1).metric(7, losses(9))
    await flushed()

    const row = await api.database.db
      .selectFrom('job_epoch')
      .select(['attempt', 'train_loss'])
      .where('job_id', '=', jobId)
      .executeTakeFirst()
    assert.deepEqual(row, { attempt: 2, train_loss: 1 })
  })

  it("are dropped for another node's jobs without blocking later lines", async () => {
    const other = await startNode(api)
    const foreign = await addJob({ nodeId: other.nodeId })
    await other[Symbol.asyncDispose]()
    const mine = await addJob()

    node.parts.spool.job(foreign, 1).log('not mine')
    node.parts.spool.job('not-even-an-id', 1).log('nonsense')
    await flushed()
    node.parts.spool.job(mine, 1).log('mine')

    assert.equal(await flushed(), true)
    assert.deepEqual(await linesOf(foreign), [])
    assert.deepEqual(await linesOf(mine), ['mine'])
  })

  it('wait until the database is back', async () => {
    const jobId = await addJob()
    const { db } = api.database
    await db.schema.alterTable('job_log').renameTo('job_log_away').execute()
    node.parts.spool.job(jobId, 1).log('patient')
    await sleep(200)
    assert.equal(node.parts.spool.pending, 1)

    await db.schema.alterTable('job_log_away').renameTo('job_log').execute()

    assert.equal(await flushed(), true)
    assert.deepEqual(await linesOf(jobId), ['patient'])
  })

  it('are truncated when a line is too long, and dropped when malformed', async () => {
    const jobId = await addJob()
    const at = new Date().toISOString()
    node.parts.spool.log({ job_id: jobId, attempt: 1, seq: 0, message: `€${'ü'.repeat(30_000)}`, at })
    node.parts.spool.log({ job_id: jobId, attempt: 1, seq: 3_000_000_000, message: 'no number', at })
    node.parts.spool.log({ job_id: jobId, attempt: 1, seq: 2, message: 'no time', at: 'yesterday' })
    node.parts.spool.log({ job_id: jobId, attempt: 1, seq: 3, message: 'behind them', at })

    assert.equal(await flushed(), true)
    const [long = '', ...rest] = await linesOf(jobId)
    assert.match(long, /^€ü+ \[cut\]$/)
    assert.ok(Buffer.byteLength(long) <= 16 * 1024 && Buffer.byteLength(long) > 16_000)
    assert.deepEqual(rest, ['behind them'])
  })

  it('end with a notice when a job exceeds its log limit', async () => {
    const jobId = await addJob()
    const line = (seq: number) => ({
      job_id: jobId,
      attempt: 1,
      seq,
      message: `${seq}`.padEnd(1_000, '.'),
      at: new Date().toISOString(),
    })
    const store = (...seqs: number[]) =>
      nodeReportRepository.insertJobLogs(api.database.db, node.nodeId, seqs.map(line), { maxBytes: 4_000 })

    await store(0, 1)
    await store(0, 1, 2, 3, 4)
    await store(3, 4, 5)
    await store(6)

    const lines = await linesOf(jobId)
    assert.deepEqual(
      lines.map((text) => text.slice(0, 1)),
      ['0', '1', '2', 'T'],
    )
    assert.match(lines[3] ?? '', /has reached 3 KB: further lines are dropped/)
  })

  it('are read in pages of bounded size, newest first', async () => {
    const { accountId, key } = await api.account()
    const jobId = await addJob()
    const { db } = api.database
    await db.updateTable('training_run').set({ account_id: accountId }).where('id', '=', jobId).execute()
    const rows = Array.from({ length: 180 }, (_, seq) => ({
      job_id: jobId,
      attempt: 1 + (seq % 2),
      seq,
      message: `${seq} `.padEnd(16_000, 'x'),
      created_at: new Date(),
    }))
    await db.insertInto('job_log').values(rows).execute()

    const pages: string[][] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: string = cursor ? `?cursor=${cursor}` : ''
      const answer: Answer<AnyBody> = await api.call(
        'GET',
        `/api/builder/v1/training/runs/${jobId}/logs${query}`,
        {
          key,
        },
      )
      assert.equal(answer.status, 200)
      assert.ok(answer.text.length < 1.25 * 1024 * 1024, `${answer.text.length} bytes in one answer`)
      pages.unshift((answer.body.logs as { message: string }[]).map(({ message }) => message.trimEnd()))
      cursor = answer.body.next_cursor as string | null
    }

    assert.equal(pages.length, 3)
    const expected = rows.toSorted((a, b) => a.attempt - b.attempt || a.seq - b.seq)
    assert.deepEqual(
      pages.flat().map((message) => Number.parseInt(message, 10)),
      expected.map(({ seq }) => seq),
    )
    const other = await api.call('GET', `/api/builder/v1/training/runs/${jobId}/logs?cursor=bm9uZQ`, { key })
    assert.equal(other.status, 422)
  })

  it('stop when the link breaks, and the node is excluded from placement until it reconnects', async () => {
    const isPlaced = () => api.services.links.snapshot().some(({ node_id }) => node_id === node.nodeId)
    const hasRow = async () =>
      (
        await api.database.db
          .selectFrom('node_state')
          .select('node_id')
          .where('node_id', '=', node.nodeId)
          .execute()
      ).length === 1
    await until(async () => isPlaced() && (await hasRow()))

    api.services.links.disconnect(node.nodeId, 'a test broke it')
    await until(() => !isPlaced())

    await until(async () => isPlaced() && (await hasRow()))
  })
})

describe('reports over the link', () => {
  let api: TestApi
  let node: TestNode
  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
  })

  /** Opens a link on which the test acts as the node, in place of the node's own link. */
  async function speakFor(): Promise<WebSocket> {
    const path = '/api/v1/nodes/link'
    const socket = new WebSocket(api.baseUrl.replace('http', 'ws') + path, {
      headers: node.parts.identity.sign('GET', path),
      perMessageDeflate: false,
    })
    await once(socket, 'open')
    return socket
  }

  /** Answers every request with the response head that `headOf` builds from the number in its body. */
  function answerWith(socket: WebSocket, headOf: (n: number) => string): void {
    socket.on('message', (message: Buffer) => {
      for (const { type, stream, body } of decodeFrames(message)) {
        if (type !== FRAME.request) continue
        socket.send(encodeFrame(FRAME.end, stream, headOf(Number(body.toString())), Buffer.from('{}')))
      }
    })
  }

  const ask = (n: number) => {
    const request = {
      accountId: newId(),
      modelKey: 'any',
      path: '/v1/chat/completions',
      body: Buffer.from(String(n)),
    }
    return api.services.links.ask(node.nodeId, request)
  }

  it('break the link when malformed, and fail the waiting request with link_lost', async () => {
    for (const head of ['{broken', '{"status":"fine"}', '[]']) {
      answerWith(await speakFor(), () => head)
      await assert.rejects(ask(0), (err) => err instanceof LinkError && err.code === 'link_lost', head)
    }
  })

  it("have a chat's token counts ignored if they are invalid", async () => {
    const socket = await speakFor()
    const claims = [7, -1, 1.5, '7', 2 ** 60, null, undefined, 0]
    answerWith(socket, (n) => JSON.stringify({ status: 200, content_type: n, tokens: claims[n] }))

    const believed = await Promise.all(claims.map((_, n) => ask(n)))
    socket.close()
    assert.deepEqual(
      believed.map(({ head }) => head.tokens),
      [{ in: 7, out: 0 }, undefined, undefined, undefined, undefined, undefined, undefined, NO_TOKENS],
    )
    assert.ok(believed.every(({ head }) => head.contentType === 'application/json'))
  })

  it("have a chat's output tokens capped at its total count", async () => {
    const [socket, claims] = [await speakFor(), [3, 8, -1, '3', undefined]]
    answerWith(socket, (n) => JSON.stringify({ status: 200, tokens: 7, tokens_out: claims[n] }))
    const counts = await Promise.all(claims.map(async (_, n) => (await ask(n)).head.tokens))
    socket.close()
    assert.deepEqual(
      counts.flatMap((count) => [count?.in, count?.out]),
      [4, 3, 0, 7, 7, 0, 7, 0, 7, 0],
    )
  })

  it('break the link of a node that violates the protocol, without side effects', async () => {
    const socket = await speakFor()
    const closed = new Promise<string>((resolve) => {
      socket.on('close', (_code, reason) => resolve(String(reason)))
    })
    const tell = (type: FrameType, body: unknown) =>
      socket.send(encodeFrame(type, 0, '', Buffer.from(JSON.stringify(body))))
    tell(FRAME.hello, { inventory: node.parts.inventory })
    tell(FRAME.state, {
      report: {
        memory_total_mb: 9,
        memory_free_mb: 9,
        load: 0,
        draining: false,
        jobs: 0,
        models: [{ model_key: 7 }],
      },
    })

    assert.match(await closed, /malformed report: body.report.models/)
    await until(() => api.services.links.snapshot().some(({ node_id }) => node_id === node.nodeId))
  })

  it('break the link of a node that claims impossible hardware', async () => {
    for (const beyond of [{ train_slots: 3e9 }, { memory_mb: 1e300 }, { cpus: 1e9 }]) {
      const socket = await speakFor()
      const closed = once(socket, 'close')
      const body = Buffer.from(JSON.stringify({ inventory: { ...node.parts.inventory, ...beyond } }))
      socket.send(encodeFrame(FRAME.hello, 0, '', body))

      const [, reason] = await closed
      assert.match(String(reason), new RegExp(`malformed report: body.inventory.${Object.keys(beyond)[0]}`))
    }
  })
})
