import assert from 'node:assert/strict'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { addHubModel } from '../../support/builders/models/hub-model.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { startHub, type TestHub } from '../../support/servers/hub-server.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('a task whose model comes from the hub', () => {
  let hub: TestHub
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    hub = await startHub()
    world = await startInferenceWorld({ HEARTH_HUB_ENDPOINT: hub.url })
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
    await hub?.[Symbol.asyncDispose]()
  })

  it('reports each step of the cold start and the download progress (2.7, 3.3)', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const { db } = world.api.database
    const { modelKey, versionId } = await addHubModel(world.api, hub, {
      name: 'distant',
      padding: 'p'.repeat(600_000),
      load_s: 2.5,
    })
    // Load and first inference are slowed, so that the test can observe their steps on a busy machine.
    const example_input = JSON.stringify({ wait_s: 2.5 })
    await db.updateTable('model_version').set({ example_input }).where('id', '=', versionId).execute()
    const endpoint = await buildEndpoint(db, world.accountId, {
      version_id: versionId,
      model_key: modelKey,
      runtime_profile: 'tiny',
    })
    const half = Promise.withResolvers<void>()
    hub.faults.halfway = half.promise

    const id = await on.queue(endpoint, { instances: [1] })
    const isHalfway = async () => {
      const { status_detail: detail } = await world.task(id)
      return detail?.status === 'downloading_model' && detail.metadata.bytes_downloaded > 0
    }
    await until(isHalfway)
    const { status, status_detail: downloading } = await world.task(id)
    half.resolve()
    const steps: string[] = []
    const loaded: number[] = []
    await until(async () => {
      const task = await world.task(id)
      const { status: step, progress_pct } = task.status_detail ?? {}
      if (step) steps.push(step)
      if (step === 'loading_model') loaded.push(progress_pct)
      return task.status === 'succeeded'
    })

    const [file] = (await node.parts.control.modelSpec(modelKey)).files
    const { bytes_downloaded, bytes_total, download_speed_mbps, eta_seconds, model_id } = downloading.metadata
    assert.equal(status, 'downloading_model')
    assert.deepEqual([model_id, bytes_total], [modelKey, file?.size_bytes])
    assert.ok(bytes_downloaded > 0 && bytes_downloaded < bytes_total, `${bytes_downloaded}`)
    assert.equal(downloading.progress_pct, Math.floor((100 * bytes_downloaded) / bytes_total))
    assert.ok(download_speed_mbps > 0, JSON.stringify(downloading.metadata))
    // The estimate is in tenths and absent near the end. It must equal the quotient of the other figures within their
    // precision.
    const implied = ((bytes_total - bytes_downloaded) * 8) / 1e6 / download_speed_mbps
    assert.ok(Math.abs(eta_seconds - implied) <= 0.1 + implied / 50, JSON.stringify(downloading.metadata))
    const order = [...new Set(steps)].filter((step) => step !== 'downloading_model')
    assert.deepEqual(order.slice(0, 2), ['loading_model', 'warming_up'])
    assert.ok(
      loaded.some((percent) => percent > 0) && loaded.every((percent) => percent <= 99),
      loaded.join(),
    )
  })

  it('reports that the hub rate-limits it, and for how long, until it continues (pains 26)', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { modelKey, versionId } = await addHubModel(world.api, hub, { name: 'limited' })
    const endpoint = await buildEndpoint(world.api.database.db, world.accountId, {
      version_id: versionId,
      model_key: modelKey,
      runtime_profile: 'tiny',
    })
    hub.faults.limited = { left: 1_000, seconds: 3 }

    const id = await on.queue(endpoint, { instances: [1] })
    let limited: AnyBody
    await until(async () => {
      const { status_detail } = await world.task(id)
      if (status_detail?.metadata.rate_limited) limited = status_detail
      return limited !== undefined
    })
    hub.faults.limited.left = 0

    assert.equal(limited.status, 'downloading_model')
    const { model_id, retry_after_s } = limited.metadata
    assert.equal(model_id, modelKey)
    assert.ok(retry_after_s > 0 && retry_after_s <= 3, `${retry_after_s}`)
    await until(async () => (await world.task(id)).status === 'succeeded')
    assert.equal((await world.task(id)).status_detail?.metadata.rate_limited, undefined)
  })
})
