import assert from 'node:assert/strict'
import { ApplicationFailure } from '@temporalio/common'
import { createMaintenanceActivities } from '../../activities/control/housekeeping/retention.ts'
import * as taskUploadRepository from '../../db/repositories/tasks/uploads.ts'
import * as jobFileRepository from '../../db/repositories/training/job-files.ts'
import { newId } from '../../domain/ids.ts'
import { taskFolder } from '../../domain/object-keys.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'
import { withFailingActivity, runTwice } from '../support/assertions/at-least-once.ts'
import { recordHistory } from '../support/assertions/histories.ts'
import { buildEndpoint, buildRun } from '../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, type TestApi } from '../support/servers/api.ts'
import type { TestTemporal } from '../support/servers/temporal.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/worlds/inference-world.ts'

const HOUR = 3_600_000
const ago = (ms: number) => new Date(Date.now() - ms)

describe('housekeeping', () => {
  let world: InferenceWorld
  let api: TestApi
  let temporal: TestTemporal
  let accountId: string
  before(async () => {
    world = await startInferenceWorld()
    ;({ api, temporal, accountId } = world)
  })
  after(() => world?.[Symbol.asyncDispose]())
  describe('both', () => {
    for (const [name, broken] of [
      ['reconcile', 'reconcileJobs'],
      ['reconcile', 'remindKillSwitch'],
      ['retention', 'removeOutlivedRows'],
      ['retention', 'removeOutlivedFiles'],
    ] as const) {
      it(`run the other steps and then fail when ${broken} fails permanently`, async () => {
        const ran: string[] = []
        const fault = ApplicationFailure.nonRetryable('broken for good')
        const recordCalls = (activities: object) =>
          Object.fromEntries(
            Object.entries(activities as Record<string, (...args: unknown[]) => Promise<unknown>>).map(
              ([key, activity]) => [
                key,
                (...args: unknown[]) => {
                  ran.push(key)
                  return activity(...args)
                },
              ],
            ),
          )
        await using _worker = await world.control((activities) =>
          recordCalls(withFailingActivity(activities, broken, fault)),
        )

        const handle = await temporal.client.workflow.start(name, {
          workflowId: `test-${name}-${broken}`,
          taskQueue: QUEUES.control,
          args: [],
        })

        await assert.rejects(handle.result())
        const last = name === 'reconcile' ? 'foldUsageCounts' : 'removeOrphanedUploads'
        assert.ok(ran.includes(last), ran.join())
      })
    }
  })

  describe('retention', () => {
    it("removes expired rows and nothing else, by the database's clock", async () => {
      const { db } = api.database
      const { objects, now } = api.services
      // The worker's clock is a day ahead.
      const ahead = { ...api.services, now: () => new Date(Date.now() + 25 * HOUR) }
      const keep = createMaintenanceActivities(ahead)
      const put = async (key: string) => {
        await objects.put(key, Buffer.from('x'), { contentType: 'text/plain' })
        return key
      }
      const body_digest = Buffer.from('d')
      const idempotent = { account_id: accountId, operation: 'o', body_digest }
      await db
        .insertInto('idempotency')
        .values([
          { ...idempotent, key: newId(), created_at: ago(25 * HOUR) },
          { ...idempotent, key: newId(), created_at: ago(23 * HOUR) },
        ])
        .execute()
      await db
        .insertInto('node_signature_seen')
        .values([
          { digest: Buffer.from('old'), expires_at: ago(1000) },
          { digest: Buffer.from('new'), expires_at: new Date(Date.now() + HOUR) },
        ])
        .execute()
      await db.deleteFrom('event').execute()
      const event = { account_id: accountId, type: 't', payload: Buffer.from('{}') }
      await db
        .insertInto('event')
        .values([
          { ...event, id: newId(), resource_id: newId(), created_at: ago(31 * 24 * HOUR) },
          { ...event, id: newId(), resource_id: newId(), created_at: ago(29 * 24 * HOUR) },
        ])
        .execute()
      const input = { account_id: accountId, content_type: 'image/png', size_bytes: 1 }
      await db
        .insertInto('uploaded_input')
        .values([
          { ...input, id: newId(), object_key: await put('inputs/old'), created_at: ago(HOUR + 1000) },
          { ...input, id: newId(), object_key: await put('inputs/new'), created_at: ago(HOUR - 60_000) },
        ])
        .execute()
      const dataset = newId()
      await db
        .insertInto('dataset')
        .values({
          id: dataset,
          account_id: accountId,
          dataset_name: 'd',
          description: '',
          status: 'pending',
          storage_format: 'csv',
          visibility: 'private',
        })
        .execute()
      const upload = {
        dataset_id: dataset,
        account_id: accountId,
        filename: 'a.csv',
        content_type: 'text/csv',
        expires_at: now(),
      }
      await db
        .insertInto('dataset_upload')
        .values([
          {
            ...upload,
            id: newId(),
            status: 'initialised',
            object_key: await put('incoming/forgotten'),
            created_at: ago(25 * HOUR),
          },
          {
            ...upload,
            id: newId(),
            status: 'initialised',
            object_key: await put('incoming/fresh'),
            created_at: ago(23 * HOUR),
          },
          {
            ...upload,
            id: newId(),
            status: 'ingesting',
            object_key: await put('incoming/read'),
            created_at: ago(25 * HOUR),
          },
        ])
        .execute()

      const rows = await keep.removeOutlivedRows()
      const files = await runTwice(keep).removeOutlivedFiles()

      assert.deepEqual(rows, { count: 3, more: false })
      assert.deepEqual(files, { count: 0, more: false })
      const count = async (table: 'idempotency' | 'node_signature_seen' | 'event' | 'uploaded_input') =>
        (await db.selectFrom(table).selectAll().execute()).length
      assert.deepEqual(
        [await count('idempotency'), await count('node_signature_seen'), await count('event')],
        [1, 1, 1],
      )
      assert.equal(await count('uploaded_input'), 1)
      const uploads = await db
        .selectFrom('dataset_upload')
        .select('object_key')
        .orderBy('object_key')
        .execute()
      assert.deepEqual(
        uploads.map(({ object_key }) => object_key),
        ['incoming/fresh', 'incoming/read'],
      )
      for (const [key, stays] of [
        ['inputs/old', false],
        ['inputs/new', true],
        ['incoming/forgotten', false],
        ['incoming/fresh', true],
        ['incoming/read', true],
      ] as const) {
        assert.equal((await objects.head(key)) !== undefined, stays, key)
      }
    })

    it('removes imports that are not completed within a day, and only those', async () => {
      const { db } = api.database
      const { objects } = api.services
      const admin = '/api/v1/admin/model-imports'
      const name = `imported-${newId().slice(-8)}`
      const file = { path: 'model.gguf', size_bytes: 1, sha256: '0'.repeat(64) }
      const begin = async () => {
        const body = { account_id: accountId, paths: [file.path] }
        const { version_id: id } = (await api.call('POST', admin, { key: OPERATIONS_KEY, body })).body
        await objects.put(`imports/${id}/${file.path}`, Buffer.from('x'), { contentType: 'text/plain' })
        return id as string
      }
      const complete = (id: string) => {
        const body = {
          account_id: accountId,
          name,
          task_type: 'chat',
          runtime_profile: 'llm-llamacpp',
          files: [file],
        }
        return api.call('POST', `${admin}/${id}:complete`, { key: OPERATIONS_KEY, body })
      }
      const isThere = async (id: string) => (await objects.head(`imports/${id}/${file.path}`)) !== undefined
      const [forgotten, late, fresh] = [await begin(), await begin(), await begin()]
      const age = (ids: string[]) =>
        db
          .updateTable('model_import')
          .set({ created_at: ago(25 * HOUR) })
          .where('id', 'in', ids)
          .execute()
      assert.equal((await complete(fresh)).status, 201)
      await age([forgotten, late])

      await runTwice(createMaintenanceActivities(api.services)).removeOutlivedFiles()

      assert.deepEqual(
        [await isThere(forgotten), await isThere(late), await isThere(fresh)],
        [false, false, true],
      )
      assert.deepEqual(await db.selectFrom('model_import').selectAll().execute(), [])
      await objects.put(`imports/${late}/${file.path}`, Buffer.from('x'), { contentType: 'text/plain' })
      assert.equal((await complete(late)).status, 409)
      assert.equal((await complete(fresh)).status, 409)
    })

    it('removes files that were uploaded for ended tasks and that no result names', async () => {
      const { db } = api.database
      const { objects } = api.services
      const endpoint = await buildEndpoint(db, accountId)
      const folderOf = (taskId: string) => taskFolder({ accountId, taskId })
      const build = async (status: 'failed' | 'succeeded' | 'running', until: Date, kept?: string) => {
        const id = newId()
        const task = { id, account_id: accountId, endpoint_id: endpoint.id, model_key: endpoint.model_key }
        await db
          .insertInto('task')
          .values({ ...task, status, surface: 'rest' })
          .execute()
        for (const name of ['1/output/a.png', '2/output/a.png'])
          await objects.put(folderOf(id) + name, Buffer.from('x'), { contentType: 'image/png' })
        const object_key = folderOf(id) + kept
        const file = {
          filename: 'a.png',
          object_key,
          content_type: 'image/png',
          size_bytes: 1,
          modality: 'image',
        }
        if (kept)
          await db
            .updateTable('task')
            .set({ outputs: JSON.stringify([file]) })
            .where('id', '=', id)
            .execute()
        await taskUploadRepository.noteTaskUpload(db, { taskId: id, accountId, until })
        return id
      }
      const [soon, past] = [ago(-HOUR), ago(HOUR)]
      const failed = await build('failed', soon)
      const succeeded = await build('succeeded', past, '2/output/a.png')
      const running = await build('running', past)

      await runTwice(createMaintenanceActivities(api.services)).removeOutlivedFiles()

      const listFiles = async (id: string) => {
        const keys: string[] = []
        for await (const { key } of objects.list(folderOf(id))) keys.push(key.slice(folderOf(id).length))
        return keys
      }
      assert.deepEqual(await listFiles(failed), [])
      assert.deepEqual(await listFiles(succeeded), ['2/output/a.png'])
      assert.equal((await listFiles(running)).length, 2)
      const rows = await db.selectFrom('task_upload').select('task_id').orderBy('task_id').execute()
      // An object that could still be uploaded is checked again later.
      assert.deepEqual(new Set(rows.map(({ task_id }) => task_id)), new Set([failed, running]))
    })

    it("removes what an ended run's lost attempts stored, and keeps the run's own files", async () => {
      const { db } = api.database
      const { objects } = api.services
      const [old, young] = await Promise.all(
        [25, 23].map((hours) =>
          buildRun(db, accountId, { status: 'failed', attempt: 2, completed_at: ago(hours * HOUR) }),
        ),
      )
      const keyOf = (run: { id: string }, attempt: number, kind: 'artifact' | 'checkpoint') =>
        jobFileRepository.attemptFile({ account_id: accountId, id: run.id }, { attempt, kind, filename: 'f' })
      for (const run of [old!, young!]) {
        for (const attempt of [1, 2]) {
          for (const kind of ['artifact', 'checkpoint'] as const) {
            await objects.put(keyOf(run, attempt, kind), Buffer.from('x'), { contentType: 'text/plain' })
          }
        }
        const checkpoint = {
          job_id: run.id,
          attempt: 2,
          epoch: 1,
          config_digest: 'c',
          size_bytes: 1,
          sha256: 'x',
        }
        await db.transaction().execute((trx) =>
          jobFileRepository.insertCheckpoint(trx, {
            ...checkpoint,
            object_key: keyOf(run, 2, 'checkpoint'),
          }),
        )
      }

      await runTwice(createMaintenanceActivities(api.services)).removeOutlivedFiles()

      const listFiles = async (run: { id: string }) => {
        const keys: string[] = []
        for await (const { key } of objects.list(
          jobFileRepository.jobFolder({ account_id: accountId, id: run.id }),
        ))
          keys.push(key)
        return keys
      }
      assert.deepEqual(await listFiles(old!), [keyOf(old!, 2, 'checkpoint')])
      assert.equal((await listFiles(young!)).length, 4)
    })

    it('runs as a workflow along with reconcile when each activity runs twice', async () => {
      await using _worker = await world.control(runTwice)
      await api.database.db
        .insertInto('usage_delta')
        .values({ account_id: accountId, endpoint_id: newId(), enqueued: 1 })
        .execute()

      const names = ['retention', 'reconcile'] as const
      for (const name of names) {
        const handle = await temporal.client.workflow.start(name, {
          workflowId: `test-${name}`,
          taskQueue: QUEUES.control,
          args: [],
        })
        await handle.result()
        // `reconcile` alone is the name of a history from before candidate tests.
        await recordHistory(name === 'reconcile' ? 'reconcile-candidates' : name, handle)
      }

      const deltas = await api.database.db.selectFrom('usage_delta').selectAll().execute()
      assert.equal(deltas.length, 0)
    })
  })
})
