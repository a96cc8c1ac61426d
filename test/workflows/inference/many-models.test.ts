import assert from 'node:assert/strict'
import { link, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import type { NodeModelSpec } from '../../../schemas/nodes/node.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const MODELS = 300

describe('a node with hundreds of models on disk', function () {
  this.timeout(110_000)
  let world: InferenceWorld
  let node: WorldNode
  let control: AsyncDisposable
  let folder: ReturnType<typeof temporaryFolder>
  const endpoints: EndpointRow[] = []
  const startIt = () => world.node({ dir: folder.path, realCatalog: 'both', jobs: true, memoryMb: 4_000 })
  before(async () => {
    world = await startInferenceWorld()
    folder = temporaryFolder()
    ;[control, node] = await Promise.all([world.control(), startIt()])
    for (let i = 0; i < 5; i++) endpoints.push(await world.endpoint({ name: 'many' }))
    const others = await copiesOf(world, endpoints[0]!.model_key, MODELS - endpoints.length)
    await putOnDisk(node, [...endpoints.map(({ model_key }) => model_key), ...others])
    await until(() => reported() === MODELS)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await control[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  const reported = () => world.api.services.links.snapshot()[0]?.models.length
  const offeredOn = async (taskId: string) => {
    const { events } = await world.workflow(taskId).fetchHistory()
    return (events ?? []).flatMap(
      ({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.taskQueue?.name ?? [],
    )
  }

  it('polls only for the loaded ones, and starts work on a cached one at once', async () => {
    const [first, second] = endpoints
    assert.ok(first && second)

    const answers = [
      await world.infer(first, { input: { instances: [3] }, sync_timeout_s: 30 }),
      await world.infer(second, { input: { instances: [4] }, sync_timeout_s: 30 }),
    ]

    for (const { body } of answers) {
      assert.deepEqual([body.status, body.model_state], ['succeeded', 'cached'], JSON.stringify(body))
      // If it were offered first on a queue that no node polls, it would start 2 s later.
      assert.deepEqual(await offeredOn(body.task_id), [`node.${node.nodeId}`])
    }
    await node.queues.settled()
    assert.deepEqual(node.queues.polled, [
      'merge.cpu',
      `node.${node.nodeId}`,
      'train.cpu',
      ...[first, second].map(({ model_key }) => `warm.${model_key}`).toSorted(),
    ])
  })

  it('finishes a training run and a cold load while it answers requests for a loaded model', async () => {
    const dataset_id = await readyDataset(world.api, world.accountId)
    const jobId = await createRun(world.api, world.key, { dataset_id, job_name: 'Among many' })
    const cold = await world.endpoint({ name: 'cold' })

    const { body } = await world.infer(cold, { input: { instances: [5] }, sync_timeout_s: 30 })
    const warm = await world.infer(endpoints[0]!, { input: { instances: [6] } })

    assert.deepEqual([body.status, body.model_state], ['succeeded', 'cold'], JSON.stringify(body))
    assert.equal(warm.body.status, 'succeeded')
    const path = `/api/builder/v1/training/runs/${jobId}`
    const status = async () => (await world.api.call('GET', path, { key: world.key })).body.status
    await until(async () => ['completed', 'failed'].includes(await status()), 90_000)
    assert.equal(await status(), 'completed')
  })

  it('frees the files of deleted endpoints, including those deleted while it was offline', async () => {
    const [kept, , deletedOnline, missed, last] = endpoints
    assert.ok(kept && deletedOnline && missed && last)
    const folders = () => readdir(join(folder.path, 'weights', 'models'))
    const has = async ({ model_key }: EndpointRow) => (await folders()).includes(model_key)
    const remove = async ({ id }: EndpointRow) => {
      const path = `/api/builder/v1/endpoints/${id}`
      assert.equal((await world.api.call('DELETE', path, { key: world.key })).status, 204)
    }

    await remove(deletedOnline)
    await until(async () => !(await has(deletedOnline)))
    assert.ok(await has(missed))
    await node[Symbol.asyncDispose]()
    await remove(missed)
    node = await startIt()
    await until(() => (reported() ?? 0) > MODELS / 2)
    await remove(last)

    await until(async () => !(await has(last)) && !(await has(missed)))
    // They all share the same blob.
    assert.ok(await has(kept))
    assert.ok((await readdir(join(folder.path, 'weights', 'blobs'))).length > 0)
    await node.parts.models.load(kept.model_key)
  })
})

/**
 * Copies the rows of a model all at once, because adding 300 models one by one would dominate the time of this suite.
 * Their objects are never read: the files are on the node's disk.
 */
async function copiesOf(world: InferenceWorld, modelKey: string, count: number): Promise<string[]> {
  const { db } = world.api.database
  const version = await db
    .selectFrom('model_version')
    .selectAll()
    .where('model_key', '=', modelKey)
    .executeTakeFirstOrThrow()
  const file = await db
    .selectFrom('version_file')
    .selectAll()
    .where('version_id', '=', version.id)
    .executeTakeFirstOrThrow()
  const copies = Array.from({ length: count }, () => newId()).map((id) => ({
    id,
    model_key: `many-${id.slice(-8)}`,
  }))
  const { account_id, name, model_config_id, runtime_profile, memory_mb } = version
  await db
    .insertInto('model_version')
    .values(
      copies.map((copy) => ({
        ...copy,
        account_id,
        name,
        model_config_id,
        runtime_profile,
        memory_mb,
        input_schema: '{}',
        output_schema: '{}',
        example_input: '{"instances":[1]}',
        example_output: '{"predictions":[1]}',
      })),
    )
    .execute()
  await db
    .insertInto('version_file')
    .values(copies.map(({ id }) => ({ ...file, version_id: id, object_key: `versions/${id}/weights.json` })))
    .execute()
  return copies.map(({ model_key }) => model_key)
}

/** Puts models into a node's weights folder as downloads do: as links to shared blobs. */
async function putOnDisk(node: WorldNode, modelKeys: readonly string[]): Promise<void> {
  const { control, models } = node.parts
  const [first = ''] = modelKeys
  const spec = await control.modelSpec(first)
  await models.load(first)
  await models.evict(first, false)
  const dir = join(node.dir, 'weights')
  for (const model_key of modelKeys.slice(1)) {
    const folder = join(dir, 'models', encodeURIComponent(model_key))
    await mkdir(join(folder, 'files'), { recursive: true })
    for (const { path, sha256 } of spec.files) {
      await link(join(dir, 'blobs', sha256), join(folder, 'files', path))
    }
    const stored: NodeModelSpec = {
      ...spec,
      model_key,
      files: spec.files.map((file) => ({ ...file, url: '' })),
    }
    await writeFile(join(folder, 'model.json'), JSON.stringify(stored))
  }
  await models.disk.sync()
}
