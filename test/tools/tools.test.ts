import assert from 'node:assert/strict'
import { turnKeyOf } from '../../platform/turn-key.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { until } from '../support/assertions/until.ts'
import { uploadInput } from '../support/builders/forms.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { requireToolPython } from '../support/servers/nodes/tools.ts'
import type { WorldNode } from '../support/servers/worlds/inference-world.ts'
import { startToolWorld, type ToolWorld } from '../support/servers/worlds/tool-world.ts'
import { skipBecause } from '../support/skip.ts'

describe('catalog tools', function () {
  this.timeout(30_000)
  let world: ToolWorld
  let node: WorldNode

  before(async function () {
    world = await startToolWorld()
    node = await world.toolNode()
    if (node.parts.tools.report().length === 0)
      skipBecause(this, 'this kernel does not let the node create namespaces')
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  it('calculate an expression', async () => {
    const { status, body } = await world.call('calculator', { expression: '(2 + 3) * 2^10' })

    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.status, 'succeeded', body.message)
    assert.deepEqual(body.result, { result: 5120, text: '5120' })
    const task = await world.task(body.task_id)
    assert.deepEqual(task.result, body.result)
  })
  it('return the current time', async () => {
    const { body } = await world.call('current_time', { timezone: 'Asia/Kathmandu' })
    assert.equal(body.status, 'succeeded', body.message)
    assert.match(body.result.time, /\+05:45$/)
    assert.ok(Math.abs(body.result.unix_s - Date.now() / 1000) < 10)
  })

  it('run programs, and return a failing program as a result', async () => {
    const python = await world.call('run_python', { code: 'print(6 * 7)' })
    const script = await world.call('run_javascript', {
      code: "console.log('out'); console.error('err'); process.exit(3)",
    })

    assert.deepEqual(python.body.result, { stdout: '42\n', stderr: '', exit_code: 0 })
    assert.deepEqual(script.body.result, { stdout: 'out\n', stderr: 'err\n', exit_code: 3 })
  })

  it('read files from the storage of the platform', async function () {
    this.timeout(300_000)
    await requireToolPython(this)
    const file = new File(['n\n1\n2\n'], 'numbers.csv', { type: 'text/csv' })
    const { input_url } = (await uploadInput(world, 'query_table', file)).body
    const sql = 'select sum(n) as total from data'
    const { body } = await world.call('query_table', { file_url: input_url, sql })
    assert.deepEqual(body.result?.rows, [{ total: 3 }], body.message)

    const forged = await world.call('query_table', { file_url: `${input_url}0`, sql })
    assert.equal(forged.body.message, 'file_url: its address has expired or was modified')
  })

  it('reject an invalid input with the name of its field', async () => {
    const { status, body } = await world.call('run_python', { code: 'pass', timeout_s: 301 })

    assert.equal(status, 422)
    assert.match(JSON.stringify(body), /timeout_s/)
    assert.equal((await world.call('calculator', {})).status, 422)
    assert.equal((await world.call('calculator', { expression: '1', more: 2 })).status, 422)
  })

  it('report input errors that a schema cannot catch', async () => {
    const wrong = await world.call('calculator', { expression: '1 / 0' })
    const zone = await world.call('current_time', { timezone: 'Mars/Base' })

    assert.equal(wrong.body.status, 'failed')
    assert.equal(wrong.body.message, 'expression: it divides by zero')
    assert.match(zone.body.message, /timezone: "Mars\/Base" is not a time zone/)
  })

  it('fail a call that exceeds its time limit', async () => {
    const began = performance.now()
    const { body } = await world.call('run_python', { code: 'while True: pass', timeout_s: 1 })

    assert.equal(body.status, 'failed')
    assert.equal(body.message, 'the tool was ended after 1 s, its time limit')
    assert.ok(performance.now() - began < 5_000)
  })

  it('return the same result as a task, an action and an MCP tool', async () => {
    await using _control = await world.control()
    const { api, key } = world
    const { turns } = node.parts.tools
    const takeSlot = turns.takeSlot.bind(turns)
    const slots: string[] = []
    turns.takeSlot = (turn, signal) => {
      slots.push(turn)
      return takeSlot(turn, signal)
    }
    const queued = await api.call('POST', '/api/builder/v1/endpoints/calculator/infer:async', {
      key,
      body: { input: { expression: '2^70' } },
    })
    assert.equal(queued.status, 202, JSON.stringify(queued.body))
    let task: AnyBody
    await until(async () => (task = await world.task(queued.body.task_id)).status === 'succeeded', 20_000)
    assert.equal(task.result.text, '1180591620717411303424')
    assert.deepEqual(slots, [turnKeyOf(world.accountId)], "the task must wait for its account's turn")

    const action = await api.call('POST', '/api/builder/v1/actions/calculator:invoke', {
      key,
      body: { input: { expression: '2^70' } },
    })
    assert.deepEqual(action.body.result, task.result, JSON.stringify(action.body))
    const manifest = await api.call('GET', '/api/builder/v1/mcp/manifest/calculator', { key })
    assert.equal(manifest.body.kind, 'tool')
    assert.equal(manifest.body.costHint, 'free')
    const mcp = await api.call('POST', '/mcp', {
      key,
      headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'run_inference',
          arguments: { endpoint_id: 'calculator', input: { expression: '2^70' } },
        },
      },
    })
    assert.match(mcp.text, /1180591620717411303424/)
  })

  it('fail a queued task after one attempt when the tool rejects it, with its message', async () => {
    await using _control = await world.control()
    const { api, key } = world
    const queued = await api.call('POST', '/api/builder/v1/endpoints/calculator/infer:async', {
      key,
      body: { input: { expression: 'import os' } },
    })
    let task: AnyBody
    await until(async () => (task = await world.task(queued.body.task_id)).status === 'failed', 20_000)
    assert.match(task.error, /^expression: syntax error at column/)
  })

  it('are never loaded, even if the node has not reported them to the gateway yet', async () => {
    const { api, key, temporal } = world
    const toolKey = 'tool:calculator'
    const queued = await api.call('POST', '/api/builder/v1/endpoints/calculator/infer:async', {
      key,
      body: { input: { expression: '6 * 7' } },
    })
    const cold = { model_key: toolKey, state: 'cold', in_flight: 0, memory_mb: 0 } as const
    const forget = setInterval(() => api.services.links.placement.setModel(node.nodeId, cold), 1)
    try {
      await using _control = await world.control()
      let task: AnyBody
      await until(async () => (task = await world.task(queued.body.task_id)).status === 'succeeded', 20_000)
      assert.equal(task.result.text, '42')
    } finally {
      clearInterval(forget)
    }

    const load = temporal.client.workflow.getHandle(WORKFLOW_ID.load(toolKey, node.nodeId))
    await assert.rejects(load.describe(), /not found/i)
    const starts = await api.database.db
      .selectFrom('workflow_start')
      .select('workflow_id')
      .where('workflow_id', 'like', 'load/tool%')
      .execute()
    assert.deepEqual(starts, [])
    assert.ok(node.parts.models.report().every(({ model_key }) => !model_key.startsWith('tool:')))
  })

  it('stop a program when its task is cancelled', async () => {
    const { api, key } = world
    const { body } = await world.call(
      'run_python',
      { code: 'import time\ntime.sleep(60)', timeout_s: 100 },
      { sync_timeout_s: 1 },
    )
    assert.equal(body.status, 'running')
    assert.equal(node.parts.driver.running.length, 1)

    const { status } = await api.call('POST', `/api/builder/v1/tasks/${body.task_id}:cancel`, { key })
    assert.ok(status < 300, String(status))
    await until(() => node.parts.driver.running.length === 0)
  })

  it('return 503 when no node can confine the tool', async () => {
    await node[Symbol.asyncDispose]()
    await until(() => world.api.services.links.placement.count('tool:calculator').warm === 0)
    for (const verb of ['infer', 'infer:async']) {
      const { status, body } = await world.api.call('POST', `/api/builder/v1/endpoints/calculator/${verb}`, {
        key: world.key,
        body: { input: { expression: '1' } },
      })
      assert.equal(status, 503)
      assert.equal(body.error.code, 'no_capacity')
      assert.match(body.error.message, /no connected node can run the tool calculator/)
    }
  })
})
