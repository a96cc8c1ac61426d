import assert from 'node:assert/strict'
import { freePorts } from '../../../platform/free-ports.ts'
import { eventually, until } from '../../support/assertions/until.ts'
import { HearthRunner } from '../../support/builders/run-hearth.ts'
import { type AnyBody, OPERATIONS_KEY, type TestApi } from '../../support/servers/api.ts'
import { startGate, startGatedApi } from '../../support/servers/gate.ts'
import { startNodeProcess } from '../../support/servers/nodes/node-process.ts'
import { startTemporal } from '../../support/servers/temporal.ts'
import { startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

/** Starts a gate on another port, and makes the gateway announce it to nodes. */
async function startAnotherGate(api: TestApi) {
  const [port] = await freePorts(1)
  const gate = await startGate(api, { port: port! })
  Object.assign(api.services.config, { HEARTH_GATE_URL: `http://127.0.0.1:${port}` })
  return gate
}

describe('a node whose gate has moved', function () {
  this.timeout(120_000)

  it('continues its work at the new address, and accepts more', async () => {
    await using world = await startInferenceWorld()
    await using _control = await world.control()
    await using node = await world.node()
    const { id } = await world.endpoint({ name: 'moved' })
    const ask = async (wait_s: number): Promise<string> => {
      const path = `/api/builder/v1/endpoints/${id}/infer:async`
      const { status, body, text } = await world.api.call('POST', path, {
        key: world.key,
        body: { input: { wait_s } },
      })
      assert.equal(status, 202, text)
      return body.task_id
    }
    const ended = (taskId: string) =>
      eventually('its end', async () => {
        const task = await world.task(taskId)
        return ['succeeded', 'failed'].includes(task.status) ? task : undefined
      })
    await ended(await ask(0))
    const atWork = await ask(8)
    await until(async () => (await world.task(atWork)).status === 'running')

    await using _other = await startAnotherGate(world.api)
    node.access.renewSoon()
    await until(() => node.access.address === new URL(world.api.services.config.HEARTH_GATE_URL!).host)
    await world.gate[Symbol.asyncDispose]()

    const [first, second] = await Promise.all([ended(atWork), ask(0).then(ended)])
    assert.deepEqual([first.status, second.status], ['succeeded', 'succeeded'], first.error)
    const { db } = world.api.database
    const leases = await db.selectFrom('lease').select('attempt').where('subject_id', '=', atWork).execute()
    assert.deepEqual(leases, [{ attempt: 1 }])
  })

  it('is listed as online without a gate until it reconnects', async () => {
    await using stack = new AsyncDisposableStack()
    const temporal = stack.use(await startTemporal())
    const { api, gate } = await startGatedApi(stack, temporal)
    await using _node = await startNodeProcess(api, 'left-behind')
    const seen = async (): Promise<AnyBody> => {
      const { body } = await api.call('GET', '/api/v1/admin/nodes', { key: OPERATIONS_KEY })
      return body.nodes.find(({ status }: AnyBody) => status === 'online')
    }
    const pollers = async () => {
      const { node_id } = await seen()
      const { pollers } = await temporal.client.workflowService.describeTaskQueue({
        namespace: 'default',
        taskQueue: { name: `node.${node_id}` },
        taskQueueType: 2,
      })
      return pollers ?? []
    }
    using hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_OPERATIONS_KEY: OPERATIONS_KEY })
    await until(async () => (await seen())?.gate_fault === null && (await pollers()).length > 0, 30_000)
    const before = api.services.config.HEARTH_GATE_URL!

    await gate[Symbol.asyncDispose]()
    await until(async () => (await seen()).gate_fault !== null, 30_000)

    const { address, since } = (await seen()).gate_fault
    assert.equal(address, new URL(before).host)
    assert.ok(Date.now() - Date.parse(since) < 30_000)
    const listed = await hearth.run(['nodes', 'list'])
    assert.match(listed.out, /left-behind +online, no gate/)
    assert.match(
      listed.out,
      /^Node left-behind: it has not reached the Temporal gate .* To do: .*HEARTH_GATE_URL/m,
    )
    const doctor = await hearth.run(['doctor'])
    assert.match(
      doctor.out,
      /^WRONG +Node left-behind: online, .* has not reached the Temporal gate .* To do: /m,
    )

    const at = Date.now()
    await using _other = await startAnotherGate(api)
    await until(async () => (await seen()).gate_fault === null, 30_000)
    await until(
      async () =>
        (await pollers()).some(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000 > at),
      30_000,
    )
    assert.match((await hearth.run(['nodes', 'list'])).out, /left-behind +online +shared/)
  })
})
