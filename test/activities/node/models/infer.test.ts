import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { NodeDeps } from '../../../../activities/node/deps.ts'
import { createInferActivities } from '../../../../activities/node/models/infer.ts'
import { ControlClient } from '../../../../node-runtime/control/client.ts'
import type { Identity } from '../../../../node-runtime/control/identity.ts'
import { WorkRegistry } from '../../../../node-runtime/control/work-registry.ts'
import type { AnyBody } from '../../../support/servers/api.ts'

/** A gateway whose database is away for the first calls to these routes. */
async function gatewayAwayFor(calls: number, routes: RegExp) {
  const bodies = new Map<string, AnyBody>()
  let left = calls
  const serve: (...of: Parameters<RequestListener>) => Promise<void> = async (req, res) => {
    const url = req.url ?? ''
    const route = url.split('?')[0]!.split(/[/:]/).at(-1)!
    if (req.method === 'POST') bodies.set(route, await json(req))
    const isAway = routes.test(route) && left-- > 0
    const told = isAway ? { error: { code: 'internal', message: 'no database' } } : answers[route]
    res.writeHead(isAway ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(told))
  }
  const server = createServer((req, res) => void serve(req, res)).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const answers: Record<string, object> = {
    claim: { lease_token: randomUUID(), model_key: 'a-tool', input_url: `${origin}/input?lease_token=x` },
    input: { text: 'hi' },
    complete: { state: 'completed' },
    fail: { state: 'failed' },
  }
  const close = () => server.close().closeAllConnections()
  return { origin, bodies, [Symbol.dispose]: close }
}

describe('a task on a node', () => {
  async function infer({ origin }: { origin: string }): Promise<void> {
    const identity = { sign: () => ({}) } as unknown as Identity
    const control = new ControlClient({ identity, gateways: () => [origin], patienceMs: 60_000 })
    const tools = { has: () => true, run: (_key: string, input: Buffer) => Promise.resolve(input) }
    const deps = { control, tools, work: new WorkRegistry() } as unknown as NodeDeps
    try {
      const activities = createInferActivities(deps)
      await new MockActivityEnvironment().run(activities.inferTask.bind(activities), { taskId: randomUUID() })
    } finally {
      await control.close()
    }
  }

  it('asks for a lease that lasts while a call under it may be repeated', async () => {
    using gateway = await gatewayAwayFor(0, /^$/)

    await infer(gateway)

    assert.equal(gateway.bodies.get('claim')?.lease_s, 90)
  })

  it('reads its input, and tells its result, once the database is back', async () => {
    using gateway = await gatewayAwayFor(4, /^(input|complete)$/)

    await infer(gateway)

    assert.equal(gateway.bodies.get('fail'), undefined)
    assert.deepEqual(gateway.bodies.get('complete')?.result, { text: 'hi' })
  })
})
