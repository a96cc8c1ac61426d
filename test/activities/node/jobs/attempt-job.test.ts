import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { NodeDeps } from '../../../../activities/node/deps.ts'
import { attemptJob } from '../../../../activities/node/jobs/attempt-job.ts'
import { ControlClient } from '../../../../node-runtime/control/client.ts'
import type { Identity } from '../../../../node-runtime/control/identity.ts'
import { WorkRegistry } from '../../../../node-runtime/control/work-registry.ts'
import { DiskHealth } from '../../../../node-runtime/hardware/disk-health.ts'
import { GpuHealth } from '../../../../node-runtime/hardware/gpu-health.ts'
import { createLogger } from '../../../../platform/log.ts'
import { gatewayAwayFor } from '../../../support/servers/gateway-away.ts'

describe('a job attempt on a node', () => {
  for (const [patienceS, leaseS] of [
    [10, 60],
    [60, 90],
    [200, 300],
  ] as const)
    it(`requests a lease of ${leaseS} s when calls are retried for ${patienceS} s`, async () => {
      using gateway = await gatewayAwayFor(0, /^$/)
      const identity = { sign: () => ({}) } as unknown as Identity
      const gateways = () => [gateway.origin]
      const control = new ControlClient({ identity, gateways, patienceMs: 1_000 * patienceS })
      const log = createLogger('test', 'silent')
      using diskHealth = new DiskHealth({ folders: [tmpdir()], log })
      const spool = { job: () => ({}) }
      const deps = { control, diskHealth, work: new WorkRegistry(), spool, log } as unknown as NodeDeps
      const kept: number[] = []
      try {
        await new MockActivityEnvironment().run(() =>
          attemptJob(deps, randomUUID(), async (attempt) => void kept.push(attempt.leaseS)),
        )
      } finally {
        await control.close()
      }

      assert.deepEqual([gateway.bodies.get('claim')?.lease_s, ...kept], [leaseS, leaseS])
    })

  it('does not start on a GPU that another run could not use, and leaves the run to other nodes', async () => {
    const log = createLogger('test', 'silent')
    using diskHealth = new DiskHealth({ folders: [tmpdir()], log })
    using gpuHealth = new GpuHealth({ probe: async () => ({ devices: 1 }), log })
    gpuHealth.failed('no CUDA in PyTorch')
    using gateway = await gatewayAwayFor(0, /^$/)
    const identity = { sign: () => ({}) } as unknown as Identity
    const control = new ControlClient({ identity, gateways: () => [gateway.origin], patienceMs: 1_000 })
    const deps = { control, diskHealth, gpuHealth, work: new WorkRegistry(), log } as unknown as NodeDeps
    const attemptOn = (taskQueue: string) =>
      new MockActivityEnvironment({ taskQueue }).run(() => attemptJob(deps, randomUUID(), async () => {}))

    try {
      for (const queue of ['train.gpu', `train.gpu.${randomUUID()}`])
        await assert.rejects(attemptOn(queue), { type: 'no_cuda', nonRetryable: false })
    } finally {
      await control.close()
    }
    assert.deepEqual([gateway.bodies.size, gpuHealth.hasRuns], [0, false])
  })
})
