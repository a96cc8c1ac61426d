import assert from 'node:assert/strict'
import { createCandidateActivities } from '../../../activities/control/models/candidates.ts'
import { candidatesInTest } from '../../../db/repositories/models/candidate-tests.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { addHubModel } from '../../support/builders/models/hub-model.ts'
import { startHub, type TestHub } from '../../support/servers/hub-server.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const PREDICTIONS = { type: 'object', required: ['predictions'] }

describe('candidateTest', () => {
  let hub: TestHub
  let world: InferenceWorld
  let worker: AsyncDisposable
  let node: WorldNode
  before(async () => {
    hub = await startHub()
    world = await startInferenceWorld({ HEARTH_HUB_ENDPOINT: hub.url })
    worker = await world.control()
    node = await world.node()
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await worker[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const version = (id: string) =>
    world.api.database.db
      .selectFrom('model_version')
      .select(['lifecycle_status', 'lifecycle_note'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow()

  /** Returns the handle of a version's test once its workflow has ended. */
  async function ended(versionId: string) {
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.candidateTest(versionId))
    await until(async () => (await handle.describe()).status.name !== 'RUNNING', 20_000)
    return handle
  }

  async function imported(weights: Parameters<typeof addHubModel>[2], outputSchema: object = PREDICTIONS) {
    const { db } = world.api.database
    const { modelKey, versionId } = await addHubModel(world.api, hub, weights)
    await db
      .updateTable('model_version')
      .set({ output_schema: JSON.stringify(outputSchema), example_input: '{"instances":[1]}' })
      .where('id', '=', versionId)
      .execute()
    const endpoint = await buildEndpoint(db, world.accountId, {
      version_id: versionId,
      model_key: modelKey,
      runtime_profile: 'tiny',
      visibility: 'public',
      review_status: 'active',
      source: 'catalog',
      is_base_model: true,
    })
    return { endpoint, versionId }
  }

  it('promotes an import once its first request has loaded it, and opens it to other accounts', async () => {
    const { endpoint, versionId } = await imported({ name: 'good' })
    const other = await world.api.account()
    const path = `/api/builder/v1/endpoints/${endpoint.id}`
    assert.equal((await world.api.call('GET', path, { key: other.key })).status, 403)

    const { status, body } = await world.infer(endpoint, { input: { instances: [1] }, sync_timeout_s: 30 })

    assert.equal(status, 200)
    assert.equal(body.status, 'succeeded', JSON.stringify(body))
    await until(async () => (await version(versionId)).lifecycle_status === 'ready')
    assert.equal((await version(versionId)).lifecycle_note, null)
    assert.equal((await world.api.call('GET', path, { key: other.key })).status, 200)
    await recordHistory('candidate-test-ready', await ended(versionId))
  })

  it('leaves the version a candidate, with the reason, when the answer does not match the output schema', async () => {
    const { endpoint, versionId } = await imported({ name: 'odd' }, { type: 'object', required: ['choices'] })

    await world.infer(endpoint, { input: { instances: [1] }, sync_timeout_s: 30 })

    await until(async () => (await version(versionId)).lifecycle_note !== null)
    const { lifecycle_status, lifecycle_note } = await version(versionId)
    assert.equal(lifecycle_status, 'candidate')
    assert.match(lifecycle_note ?? '', /does not match the output schema: .*choices/)
    await recordHistory('candidate-test-refused', await ended(versionId))
  })

  it('reports the memory needed and available when no node could load it', async () => {
    const { db } = world.api.database
    const candidates = createCandidateActivities({ ...world.api.services, now: () => new Date() })
    const reason = 'no node could load it within 24 hours'
    const close = async (change: object) => {
      const { versionId } = await imported({ name: 'large' })
      await db.updateTable('model_version').set(change).where('id', '=', versionId).execute()
      await candidates.closeCandidate({ versionId, passed: false, reason, isUnplaced: true })
      return (await version(versionId)).lifecycle_note
    }

    assert.equal(
      await close({ memory_mb: 9_000 }),
      `${reason}: it needs 9000 MB, and the largest node that runs tiny has 1000 MB`,
    )
    assert.equal(
      await close({ runtime_profile: 'absent' }),
      `${reason}: it needs 50 MB, and no node runs absent`,
    )
  })

  it('ends the running test and places nothing when the version is disabled', async () => {
    const { endpoint, versionId } = await imported({ name: 'parted', load_s: 3 })
    const candidates = createCandidateActivities({ ...world.api.services, now: () => new Date() })
    await world.infer(endpoint, { input: { instances: [1] }, sync: false })
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.candidateTest(versionId))
    const isStarted = () => handle.describe().then(Boolean, () => false)
    await until(isStarted, 20_000)

    const moved = { lifecycle_status: 'disabled', lifecycle_note: 'by hand' } as const
    const { db } = world.api.database
    await db.updateTable('model_version').set(moved).where('id', '=', versionId).execute()

    assert.equal(await candidates.placeCandidate(versionId), false)
    assert.equal((await (await ended(versionId)).describe()).status.name, 'COMPLETED')
    assert.deepEqual(await version(versionId), moved)
  })

  it('tests again when the version becomes a candidate again while its earlier test is closing', async () => {
    const { versionId } = await imported({ name: 'back' })
    const { db } = world.api.database
    const candidates = createCandidateActivities({ ...world.api.services, now: () => new Date() })
    await db.updateTable('model_version').set({ tests: 1 }).where('id', '=', versionId).execute()

    await candidates.closeCandidate({ versionId, passed: false, reason: 'it was moved', isMoved: true })

    assert.deepEqual(await version(versionId), { lifecycle_status: 'candidate', lifecycle_note: null })
    const waiting = await candidatesInTest(db, { after: null, limit: 100 })
    assert.ok(waiting.some((candidate) => candidate.id === versionId))
  })

  it('records that the test was cancelled', async () => {
    const { endpoint, versionId } = await imported({ name: 'slow', load_s: 3 })
    await world.infer(endpoint, { input: { instances: [1] }, sync: false })
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.candidateTest(versionId))
    await until(
      () =>
        handle.describe().then(
          () => true,
          () => false,
        ),
      20_000,
    )

    await handle.cancel()

    await until(async () => (await version(versionId)).lifecycle_note === 'its test was cancelled')
    await recordHistory('candidate-test-cancelled', await ended(versionId))
  })

  it("stops at the first load that finds the weights unusable, with the node's message", async () => {
    const { endpoint, versionId } = await imported({ name: 'clay', unusable: true })

    await world.infer(endpoint, { input: { instances: [1] }, sync: false })

    const note = 'its weights cannot be used: they are of clay'
    await until(async () => (await version(versionId)).lifecycle_note === note)
    await ended(versionId)
    assert.deepEqual(await version(versionId), { lifecycle_status: 'candidate', lifecycle_note: note })
  })

  it("leaves the version a candidate, with the reason, when it can't be loaded", async () => {
    const { endpoint, versionId } = await imported({ name: 'broken', broken: true })

    await world.infer(endpoint, { input: { instances: [1] }, sync: false })

    await until(async () => (await version(versionId)).lifecycle_note !== null)
    const { lifecycle_status, lifecycle_note } = await version(versionId)
    assert.equal(lifecycle_status, 'candidate')
    assert.match(lifecycle_note ?? '', /could not be loaded/)
    await recordHistory('candidate-test-unloadable', await ended(versionId))
  })
})
