import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { NodeDeps } from '../../../../activities/node/deps.ts'
import { createInferActivities } from '../../../../activities/node/models/infer.ts'
import { ControlClient } from '../../../../node-runtime/control/client.ts'
import type { Identity } from '../../../../node-runtime/control/identity.ts'
import { WorkRegistry } from '../../../../node-runtime/control/work-registry.ts'
import { gatewayAwayFor } from '../../../support/servers/gateway-away.ts'

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

  it('ends where the platform finds its result too large, because it would be on any node', async () => {
    using gateway = await gatewayAwayFor(1, /^complete$/, { status: 413, code: 'payload_too_large' })

    await assert.rejects(infer(gateway), { type: 'result_refused', nonRetryable: true })
    assert.equal(gateway.bodies.get('fail')?.retryable, false)
  })
})
