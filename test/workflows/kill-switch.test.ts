import assert from 'node:assert/strict'
import * as killSwitchRepository from '../../db/repositories/platform/kill-switch.ts'
import { createLogger } from '../../platform/log.ts'
import { ensureSchedules } from '../../workers/schedules.ts'
import {
  activateKillSwitch,
  deactivateKillSwitch,
  killSwitchState,
  type KillSwitchState,
} from '../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { runTwice } from '../support/assertions/at-least-once.ts'
import { recordHistory } from '../support/assertions/histories.ts'
import { until } from '../support/assertions/until.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'
import { startControlWorker, startTemporal, type TestTemporal } from '../support/servers/temporal.ts'

describe('killSwitch', () => {
  let temporal: TestTemporal
  let api: TestApi
  let worker: AsyncDisposable
  before(async () => {
    temporal = await startTemporal()
    api = await startApi({ config: { TEMPORAL_ADDRESS: temporal.address } })
    await ensureSchedules(temporal.client, createLogger('test', 'silent'), { hasWebhooks: false })
    await temporal.client.workflow
      .getHandle(WORKFLOW_ID.killSwitch)
      .signal(activateKillSwitch, { reason: 'nobody there', actor: 'ada' })
    worker = await startControlWorker(temporal, api.services, runTwice)
  })
  after(async () => {
    await worker?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
    await temporal?.[Symbol.asyncDispose]()
  })

  const handle = () => temporal.client.workflow.getHandle(WORKFLOW_ID.killSwitch)
  const rest = (action: string) =>
    api.call('POST', `/api/v1/admin/killswitch/${action}`, { key: OPERATIONS_KEY })
  const row = () => killSwitchRepository.readKillSwitch(api.database.db)
  const knows = (state: Partial<KillSwitchState>) =>
    until(async () => {
      const current = await handle().query(killSwitchState)
      return Object.entries(state).every(([name, value]) => current[name as keyof KillSwitchState] === value)
    })

  it('receives signals while no worker is running', async () => {
    await knows({ active: true, reason: 'nobody there' })
    await handle().signal(deactivateKillSwitch)
    await knows({ active: false })
  })

  it('writes the row when an operator signals it, and every gateway follows', async () => {
    await handle().signal(activateKillSwitch, { reason: 'from the UI', actor: 'ada' })
    await knows({ active: true, reason: 'from the UI', actor: 'ada' })
    await until(() => api.services.killSwitch.active)
    assert.equal((await row()).reason, 'from the UI')

    await handle().signal(deactivateKillSwitch)
    await knows({ active: false, reason: null, actor: 'temporal' })
    await until(() => !api.services.killSwitch.active)
  })

  it('follows a change made over REST without writing it again', async () => {
    await rest('activate?reason=over%20REST')
    await knows({ active: true, reason: 'over REST', actor: 'operations-key' })
    const { version } = await row()
    await rest('deactivate')
    await knows({ active: false })

    assert.equal((await row()).version, version + 1)
  })

  it('ignores a late signal about an earlier change', async () => {
    const { version } = await killSwitchRepository.writeKillSwitch(
      api.database.db,
      { active: false, reason: 'over', actor: 'me' },
      new Date(),
    )

    await handle().signal(activateKillSwitch, { reason: 'late', actor: 'me', version: version - 1 })

    await knows({ active: false, reason: 'over' })
    assert.equal((await row()).active, false)
  })

  it('keeps running when it is cancelled', async () => {
    await handle().cancel()
    await handle().signal(activateKillSwitch, { reason: 'still here', actor: 'ada' })

    await knows({ active: true, reason: 'still here' })
    await handle().signal(deactivateKillSwitch)
    await knows({ active: false })
    await recordHistory('kill-switch', handle())
  })

  it('continues as new after many signals and keeps its state', async () => {
    const before = (await handle().describe()).runId
    for (let n = 0; n < 210; n++)
      await handle().signal(activateKillSwitch, { reason: `drill ${n}`, actor: 'ada' })

    await until(async () => (await handle().describe()).runId !== before)
    await knows({ active: true, reason: 'drill 209' })
  })

  it('restarts with the state of the row after it was terminated', async () => {
    await handle().terminate('by mistake')
    await killSwitchRepository.writeKillSwitch(
      api.database.db,
      { active: true, reason: 'meanwhile', actor: 'me' },
      new Date(),
    )

    await until(async () => (await handle().describe()).status.name === 'RUNNING', 60_000)
    await knows({ active: true, reason: 'meanwhile', actor: 'me' })
  })
})
