import assert from 'node:assert/strict'
import { freePort } from '../../../../platform/free-ports.ts'
import { VERSION } from '../../../../platform/version.ts'
import { scrape } from '../../../support/assertions/exposition.ts'
import { until } from '../../../support/assertions/until.ts'
import { callApi } from '../../../support/servers/api.ts'
import { ChatApi, eventsOf } from '../../../support/servers/chat-api.ts'

const COMMENT = ': keep-alive\n\n'

describe('a chat and the node that serves it', function () {
  this.timeout(60_000)
  let chat: ChatApi
  let metricsPort: number
  before(async () => {
    metricsPort = await freePort()
    const env = { HEARTH_STREAM_KEEPALIVE_S: '1', HEARTH_METRICS_PORT: String(metricsPort) }
    chat = await ChatApi.start({ env })
  })
  after(() => chat[Symbol.asyncDispose]())

  it('has keep-alive comments in its stream until a late first token, and none after it', async () => {
    const endpoint = await chat.warm()

    const { text } = await chat.chat(endpoint.id, {
      stream: true,
      fake: { delay_ms: 2_500, tokens: 3, gap_ms: 600 },
    })

    const [before = '', after = ''] = text.split(/(?=data: )(.*)/s)
    assert.match(before, /^(: keep-alive\n\n){2,}$/)
    assert.ok(!after.includes(COMMENT))
    assert.equal(eventsOf(text).at(-1), '[DONE]')
  })

  it('can still fail with an HTTP status while waiting for the first token', async () => {
    const endpoint = await chat.warm()

    const { status, headers } = await chat.chat(endpoint.id, {
      stream: true,
      fake: { delay_ms: 300, status: 429 },
    })

    assert.equal(status, 503)
    assert.ok(Number(headers['retry-after']) >= 1)
  })

  it('arrives as a single chunk from a node with a runtime older than 0.10.195 (4.7)', async () => {
    const endpoint = await chat.warm()
    const { links } = chat.api.services
    const { nodeId, parts } = chat.node
    const report = async (version: string) => {
      parts.inventory.version = version
      links.disconnect(nodeId, 'to hear of its version')
      await until(() => links.versionOf(nodeId) === version)
      await until(() => links.placement.count(endpoint.model_key).warm === 1)
    }
    const stream = async () => {
      const { text } = await chat.chat(endpoint.id, {
        stream: true,
        stream_options: { include_usage: true },
        fake: { tokens: 5 },
      })
      const { last } = await chat.stats(endpoint)
      return { events: eventsOf(text), asked: JSON.parse(last) as { stream: boolean } }
    }

    await report('0.10.194')
    const old = await stream()
    await report('0.10.195')
    const native = await stream()

    assert.deepEqual([old.events.length, old.events.at(-1), old.asked.stream], [2, '[DONE]', false])
    const [chunk = '{}'] = old.events
    const { object, choices, usage } = JSON.parse(chunk)
    assert.equal(object, 'chat.completion.chunk')
    assert.equal(choices[0].delta.content, 'word '.repeat(5))
    assert.equal(usage.completion_tokens, 5)
    assert.ok(native.events.length > 5)
    assert.equal(native.asked.stream, true)
  })

  describe('on the metrics port', () => {
    const metrics = () => scrape(metricsPort)
    const get = (url: string) => callApi(url, 'GET')

    it('changes every metric of its path', async () => {
      const endpoint = await chat.warm()
      const model = { gen_ai_operation_name: 'chat', gen_ai_request_model: endpoint.model_key }
      const route = { http_route: '/v1/chat/completions', http_request_method: 'POST' }

      await chat.chat(endpoint.id, { fake: { tokens: 5 } })
      await chat.chat(endpoint.id, { stream: true, fake: { tokens: 4, gap_ms: 20 } })
      await chat.chat(endpoint.id, { fake: { status: 500 } })
      await chat.chat('no-such-endpoint')

      const after = await metrics()
      const count = (name: string, labels: Record<string, string>) => after.value(`${name}_count`, labels)
      const ended = after.samples('http_server_request_duration_seconds_count')
      const ofChats = ended.filter(({ labels }) => labels['http_route'] === route.http_route)
      const statuses = ofChats.map(({ labels }) => [
        labels['http_response_status_code'],
        labels['error_type'],
      ])
      assert.ok(statuses.some(([status, type]) => status === '404' && type === 'not_found'))
      assert.ok(statuses.some(([status, type]) => status === '500' && type === 'internal'))
      assert.ok(
        Number(
          count('http_server_request_duration_seconds', { ...route, http_response_status_code: '200' }),
        ) >= 2,
      )
      const durations = after
        .samples('gen_ai_server_request_duration_seconds_count')
        .filter(({ labels }) => labels['gen_ai_request_model'] === endpoint.model_key)
      assert.deepEqual(
        durations.map(({ labels, value }) => [labels['error_type'], value]),
        [
          [undefined, 2],
          ['internal', 1],
        ],
      )
      assert.equal(count('gen_ai_server_time_to_first_token_seconds', model), 1)
      assert.equal(count('gen_ai_server_time_per_output_token_seconds', model), 1)
      const perToken = Number(after.value('gen_ai_server_time_per_output_token_seconds_sum', model))
      assert.ok(perToken > 0.01 && perToken < 1, `${perToken} s per token`)
      assert.equal(after.value('gen_ai_client_token_usage_sum', { ...model, gen_ai_token_type: 'input' }), 24)
      assert.equal(after.value('gen_ai_client_token_usage_sum', { ...model, gen_ai_token_type: 'output' }), 9)
      assert.equal(after.value('hearth_model_copies', { model: endpoint.model_key }), 1)
      assert.equal(after.value('hearth_model_in_flight', { model: endpoint.model_key }), 0)
      for (const kind of ['open', 'settle']) {
        assert.ok(Number(count('hearth_journal_commit_duration_seconds', { kind })) > 0)
        assert.ok(Number(count('hearth_journal_group_size', { kind })) > 0)
      }
    })

    it('counts waiting requests, and how long they waited for a slot and for a load', async () => {
      const endpoint = await chat.cold({ name: 'fake' })
      const model = { model: endpoint.model_key }
      const before = Number((await metrics()).value('hearth_placements_total', { result: 'placed' }))

      const answer = chat.chat(endpoint.id)
      await until(
        async () =>
          Number((await metrics()).value('hearth_model_waiting', { ...model, reason: 'load' })) === 1,
      )
      await chat.node.parts.models.load(endpoint.model_key)
      assert.equal((await answer).status, 200)

      const after = await metrics()
      assert.equal(after.value('hearth_model_wait_duration_seconds_count', { ...model, reason: 'load' }), 1)
      assert.equal(after.value('hearth_placements_total', { result: 'placed' }), before + 1)
    })

    it('shows the platform: nodes, durable work, dependencies and the process itself', async () => {
      const now = await metrics()
      const node = { node_id: chat.node.nodeId, node: 'test-node' }

      assert.equal(now.value('hearth_nodes', { status: 'online' }), 1)
      assert.equal(now.value('hearth_node_link_up', node), 1)
      assert.equal(now.value('hearth_node_memory_total_bytes', node), 1_000 * 1024 ** 2)
      for (const kind of ['task', 'run', 'merge', 'cohort', 'webhook_delivery', 'workflow_start'])
        assert.ok(Number(now.value('hearth_work_waiting', { kind })) >= 0, kind)
      assert.equal(now.value('hearth_dependency_up', { system: 'postgresql' }), 1)
      assert.equal(now.value('hearth_dependency_up', { system: 'temporal' }), 0)
      assert.equal(now.value('hearth_kill_switch_active'), 0)
      assert.equal(now.value('hearth_build_info', { version: VERSION, process: 'gateway' }), 1)
      assert.ok(Number(now.value('process_memory_usage_bytes')) > 1e7)
      assert.ok(Number(now.value('process_cpu_time_seconds_total', { cpu_mode: 'user' })) > 0)
    })

    it('counts refusals by account, but no other metric names an account or key', async () => {
      const endpoint = await chat.warm()
      const { accountId } = chat.caller
      const refusals = async () =>
        Number((await metrics()).value('hearth_admission_refusals_total', { account_id: accountId }) ?? 0)
      const before = await refusals()

      const { status } = await chat.chat(endpoint.id, { fake: { status: 429 } })

      const keys = await chat.api.database.db.selectFrom('api_key').select('id').execute()
      const { text } = await metrics()
      const naming = text.split('\n').filter((line) => line.includes(accountId))
      assert.equal(status, 503)
      assert.equal(await refusals(), before + 1)
      assert.ok(naming.every((line) => line.startsWith('hearth_admission_refusals_total{')))
      assert.deepEqual(
        keys.filter(({ id }) => text.includes(id)),
        [],
      )
    })

    it('is ready without Temporal, and the API serves none of this', async () => {
      const own = `http://127.0.0.1:${metricsPort}`
      const health = await get(`${own}/healthz`)
      const ready = await get(`${own}/readyz`)
      const posted = await callApi(`${own}/metrics`, 'POST')
      const unknown = await get(`${own}/v1/models`)
      const api = await Promise.all(
        ['/metrics', '/healthz', '/readyz'].map((path) => get(chat.api.baseUrl + path)),
      )

      assert.deepEqual([health.status, health.text], [200, 'ok\n'])
      assert.deepEqual([ready.status, ready.text], [200, 'ready\n'])
      assert.deepEqual([posted.status, unknown.status], [405, 404])
      assert.deepEqual(
        api.map(({ status }) => status),
        [404, 404, 404],
      )
    })
  })
})
