import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { TASK_HEADER } from '../../../../api/routes/openai/calls/model-call.ts'
import { CHAT_PATH } from '../../../../domain/chat/chat.ts'
import { freePort } from '../../../../platform/free-ports.ts'
import { findNginx } from '../../../../scripts/test-tools.ts'
import { assertRefunded } from '../../../support/assertions/refunds.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import { callApi } from '../../../support/servers/api.ts'
import { ChatApi, eventsOf, follow, openStream } from '../../../support/servers/chat-api.ts'
import { gatewayEnv, runGateway } from '../../../support/servers/gateway-process.ts'
import { requireInstalled } from '../../../support/skip.ts'

/** nginx with its default settings, as a proxy behind a proxy. */
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

describe('chats across gateways and proxies', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  it('arrive event by event through two nginx hops', async function () {
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
    assert.ok(arrivals.at(-1)! - arrivals[0]! > 350, 'all chunks arrived at once')
  })

  it('are served by any gateway, and a killed gateway loses only its own streams, which are refunded', async () => {
    const endpoint = await chat.warm({ price_micro: 1_000 })
    const { db, url } = chat.api.database
    using folder = temporaryFolder()
    await using other = runGateway(gatewayEnv(url, folder.path))
    const { baseUrl, gatewayId } = await other.ready()
    const authorization = `Bearer ${chat.caller.key}`
    await until(async () => {
      const path = `${baseUrl}/api/builder/v1/endpoints/${endpoint.id}`
      return (await callApi(path, 'GET', { headers: { authorization } })).body.warm_nodes === 1
    })
    const { links } = chat.node.parts
    assert.equal(links.openCount, 2)

    const whole = await callApi(baseUrl + CHAT_PATH, 'POST', {
      body: { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }] },
      headers: { authorization },
    })
    const there = { api: { baseUrl }, caller: chat.caller }
    const theirs = await Promise.all(
      Array.from({ length: 3 }, () => openStream(there, endpoint.id, slowly(5_000))),
    )
    const mine = await openStream(chat, endpoint.id, slowly(300))
    const [lost, kept] = [theirs.map(follow), follow(mine)]
    await until(() => [...lost, kept].every(({ events }) => events.length >= 5))
    const openThere = await db
      .selectFrom('task')
      .select('id')
      .where('gateway_id', '=', gatewayId)
      .where('status', '=', 'running')
      .execute()
    await other.kill()
    const keptThen = kept.events.length

    assert.equal(whole.status, 200)
    assert.equal(whole.body.object, 'chat.completion')
    assert.equal((await chat.task(whole)).status, 'succeeded')
    assert.deepEqual(
      [...theirs, mine].map(({ statusCode }) => statusCode),
      [200, 200, 200, 200],
    )
    assert.deepEqual(await Promise.all(lost.map(({ isWhole }) => isWhole)), [false, false, false])
    assert.ok(lost.every(({ events }) => !events.includes('[DONE]')))
    assert.ok(keptThen < 303, 'the surviving stream ended before the gateway was killed')
    assert.equal(await kept.isWhole, true)
    assert.deepEqual([kept.events.length, kept.events.at(-1)], [303, '[DONE]'])
    await until(() => links.openCount === 1, SOON_MS)
    assert.equal((await chat.chat(endpoint.id)).status, 200)
    assert.equal((await chat.stats(endpoint)).in_flight, 0)

    // Its lease expires, and the remaining gateway fails the tasks that it left open.
    assert.deepEqual(
      openThere.map(({ id }) => id).toSorted(),
      theirs.map(({ headers }) => String(headers[TASK_HEADER])).toSorted(),
    )
    for (const { id } of openThere) {
      await until(async () => (await taskOf(id))?.status === 'failed')
      await assertRefunded(db, id)
    }
  })

  const slowly = (tokens: number) => ({ fake: { tokens, gap_ms: 10 } })
  const taskOf = (id: string) =>
    chat.api.database.db.selectFrom('task').select('status').where('id', '=', id).executeTakeFirst()
})
