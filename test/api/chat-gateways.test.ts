import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { reapOrphans } from '../../api/journal/reaper.ts'
import { findNginx } from '../../scripts/test-tools.ts'
import { startApi } from '../support/api.ts'
import { ChatApi, eventsOf, openStream } from '../support/chat-api.ts'
import { freePort } from '../support/database.ts'
import { requireInstalled } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { SOON_MS, until } from '../support/until.ts'

const LEAVERS = 60

/** nginx with the settings it comes with, as a proxy of a proxy. */
async function startNginx(target: string): Promise<AsyncDisposable & { url: string }> {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(temporaryFolder()).path
  const [outer, inner] = [await freePort(), await freePort()]
  for (const name of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(folder, name))
  const hop = (port: number, to: string) =>
    `server { listen 127.0.0.1:${port}; location / { proxy_pass ${to}; proxy_http_version 1.1; } }`
  const config = join(folder, 'nginx.conf')
  writeFileSync(
    config,
    `daemon off; user root; worker_processes 1; pid ${folder}/pid; error_log stderr crit; events {}
     http { access_log off; gzip on; client_body_temp_path ${folder}/body;
       proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi;
       scgi_temp_path ${folder}/scgi;
       ${hop(outer, `http://127.0.0.1:${inner}`)} ${hop(inner, target)} }`,
  )
  const child = spawn(await findNginx(), ['-p', folder, '-c', config], { stdio: 'ignore' })
  stack.defer(async () => {
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
  const url = `http://127.0.0.1:${outer}`
  await until(
    async () => (await request(`${url}/api/builder/v1/health`).catch(() => undefined)) !== undefined,
  )
  const opened = stack.move()
  return { url, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

describe('chats between gateways, proxies and clients that leave', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  it('arrive event by event through two hops of nginx', async function () {
    await requireInstalled(this, process.env.HEARTH_TEST_NGINX_MISSING, findNginx)
    await using proxy = await startNginx(chat.api.baseUrl)
    const endpoint = await chat.warm()

    const answer = await request(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${chat.caller.key}`, 'accept-encoding': 'gzip' },
      body: JSON.stringify({
        model: endpoint.id,
        stream: true,
        messages: [{ role: 'user', content: 'hi' }],
        fake: { tokens: 20, gap_ms: 25 },
      }),
    })
    const arrivals: number[] = []
    let text = ''
    for await (const chunk of answer.body) {
      arrivals.push(performance.now())
      text += String(chunk)
    }

    assert.equal(eventsOf(text).length, 23)
    assert.ok(arrivals.length >= 15, `${arrivals.length} pieces`)
    assert.ok(arrivals.at(-1)! - arrivals[0]! > 350, 'they came at once')
  })

  it('leave nothing behind when all clients leave in mid-stream', async () => {
    const endpoint = await chat.warm()
    const body = JSON.stringify({
      model: endpoint.id,
      stream: true,
      messages: [{ role: 'user', content: 'hi' }],
      fake: { tokens: 2_000, gap_ms: 10 },
    })
    const leave = async () => {
      const socket = connect(Number(new URL(chat.api.baseUrl).port), '127.0.0.1')
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${chat.caller.key}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      await once(socket, 'data')
      await sleep(Math.random() * 100)
      socket.destroy()
    }

    await Promise.all(Array.from({ length: LEAVERS }, leave))

    await until(async () => (await chat.stats(endpoint)).aborted === LEAVERS, SOON_MS)
    assert.equal((await chat.stats(endpoint)).in_flight, 0)
    await until(() => chat.node.parts.models.report().every(({ in_flight }) => in_flight === 0))
    await until(async () => {
      const tasks = await chat.api.database.db
        .selectFrom('task')
        .select('status')
        .where('endpoint_id', '=', endpoint.id)
        .execute()
      return tasks.length === LEAVERS && tasks.every(({ status }) => status === 'failed')
    })
    assert.equal((await chat.chat(endpoint.id)).status, 200)
  })

  it('are served by whichever gateway they reach, and one that dies loses only its own streams', async () => {
    const endpoint = await chat.warm()
    const other = await startApi({ database: chat.api.database })
    let isStopped = false
    try {
      await until(() => other.services.links.placement.count(endpoint.model_key).warm === 1)
      const slow = { fake: { tokens: 150, gap_ms: 10 } }
      const [mine, theirs] = [
        await openStream(chat, endpoint.id, slow),
        await openStream({ api: other, caller: chat.caller }, endpoint.id, {
          fake: { tokens: 5_000, gap_ms: 10 },
        }),
      ]
      const lost = theirs.body.text().then(eventsOf, () => [])
      const { db } = chat.api.database
      const gatewayId = other.services.gateway.id

      // Its connections break as when its process is killed, and nothing is written any more.
      other.services.links.retire = () => {}
      await db
        .updateTable('gateway')
        .set({ lease_expires_at: new Date(0) })
        .where('id', '=', gatewayId)
        .execute()
      await other[Symbol.asyncDispose]()
      isStopped = true

      // Cut off, or ended with an error event where its node left it first.
      assert.ok((await lost).length < 5_000)
      assert.equal(eventsOf(await mine.body.text()).length, 153)
      await reapOrphans(db, new Date())
      const open = await db
        .selectFrom('task')
        .select('id')
        .where('endpoint_id', '=', endpoint.id)
        .where('status', 'not in', ['succeeded', 'failed'])
        .where('gateway_id', '=', gatewayId)
        .execute()
      assert.deepEqual(open, [])
    } finally {
      if (!isStopped) await other[Symbol.asyncDispose]()
    }
  })
})
