import assert from 'node:assert/strict'
import { createReconcileActivities } from '../../../activities/control/housekeeping/reconcile.ts'
import { createMaintenanceActivities } from '../../../activities/control/housekeeping/retention.ts'
import * as taskUploadRepository from '../../../db/repositories/tasks/uploads.ts'
import type { NewEvidence } from '../../../db/tables/evaluator.ts'
import { newId } from '../../../domain/ids.ts'
import {
  cohortFolder,
  evaluationFolder,
  EVIDENCE,
  evidenceKey,
  taskFolder,
} from '../../../domain/object-keys.ts'
import { QUEUES, WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { runTwice } from '../../support/assertions/at-least-once.ts'
import { buildCohort, buildEdge, buildStage } from '../../support/builders/cohorts/cohorts.ts'
import { evaluate } from '../../support/builders/cohorts/evidence.ts'
import { addModel, until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const HOUR = 3_600_000

describe('folders of cohorts and structured runs', function () {
  this.timeout(300_000)
  let world: InferenceWorld
  let spaceId: string
  let versionId: string
  before(async () => {
    world = await startInferenceWorld()
    const modelKey = await addModel(world.api, { name: 'encoder' })
    ;({ id: versionId } = await world.api.database.db
      .selectFrom('model_version')
      .select('id')
      .where('model_key', '=', modelKey)
      .executeTakeFirstOrThrow())
    const { body } = await evaluate(world.api, 'model-spaces', {
      model_config_id: versionId,
      spaces: [
        { name: 'output', role: 'both', kind: 'embedding', dimensions: 4, dtype: 'f32', pooling: 'mean' },
      ],
    })
    spaceId = body.spaces[0].space_id
  })
  after(() => world?.[Symbol.asyncDispose]())

  const put = async (key: string) => {
    await world.api.services.objects.put(key, Buffer.from('x'), { contentType: 'application/octet-stream' })
    return key
  }
  const filterStored = async (keys: readonly string[]) => {
    const found = await Promise.all(keys.map((key) => world.api.services.objects.head(key)))
    return keys.filter((_, i) => found[i] !== undefined)
  }
  /** Builds a cohort with a relayed payload and a stage file; returns both keys. */
  const openCohort = async () => {
    const { db } = world.api.database
    const cohort = await buildCohort(db, world.accountId, { created_at: new Date(Date.now() - HOUR) })
    const stage = await buildStage(db, cohort)
    const cohortRef = { accountId: world.accountId, cohortId: cohort.id }
    const until = new Date(Date.now() + HOUR)
    await taskUploadRepository.noteTaskUpload(db, { taskId: stage.id, accountId: world.accountId, until })
    const file = `${taskFolder({ accountId: world.accountId, taskId: stage.id })}1/output/image.png`
    return {
      id: cohort.id,
      relayed: await put(`${cohortFolder(cohortRef)}${newId()}/1`),
      file: await put(file),
    }
  }
  const openRun = async () => {
    const id = newId()
    await world.api.database.db
      .insertInto('structured_run')
      .values({
        id,
        account_id: world.accountId,
        request: '{}',
        source_space_id: spaceId,
        target_space_id: spaceId,
        source_version_id: versionId,
        target_version_id: versionId,
        dataset_id: newId(),
        dataset_digest: 'x',
        reasons: '[]',
        status: 'fitting',
        created_at: new Date(Date.now() - HOUR),
      })
      .execute()
    return {
      id,
      vectors: await put(`${evaluationFolder(id)}source.npy`),
      map: await put(`${evaluationFolder(id)}adapter.safetensors`),
    }
  }
  const startNow = (workflow: string, workflowId: string, arg: object) =>
    world.temporal.client.workflow.start(workflow, { workflowId, taskQueue: QUEUES.control, args: [arg] })
  const indexed = (workflowId: string) =>
    until(async () => {
      const query = `ExecutionStatus = 'Running' AND WorkflowId = '${workflowId}'`
      return (await world.temporal.client.workflow.count(query)).count === 0
    }, 120_000)

  it('are removed with a workflow that an operator ended, and kept while it runs', async () => {
    const [cohort, otherCohort, run, otherRun] = [
      await openCohort(),
      await openCohort(),
      await openRun(),
      await openRun(),
    ]
    const workflows = [
      await startNow('cohortRun', WORKFLOW_ID.cohort(cohort.id), { cohortId: cohort.id }),
      await startNow('structuredEvaluation', WORKFLOW_ID.evaluation(run.id), { runId: run.id }),
    ]
    await startNow('cohortRun', WORKFLOW_ID.cohort(otherCohort.id), { cohortId: otherCohort.id })
    await startNow('structuredEvaluation', WORKFLOW_ID.evaluation(otherRun.id), { runId: otherRun.id })
    for (const workflow of workflows) await workflow.terminate('by hand')
    for (const { workflowId } of workflows) await indexed(workflowId)

    await runTwice(createReconcileActivities(world.api.services)).reconcileCohorts(null)

    assert.deepEqual(await filterStored([cohort.relayed, cohort.file, run.vectors, run.map]), [])
    const stay = [otherCohort.relayed, otherCohort.file, otherRun.vectors, otherRun.map]
    assert.deepEqual(await filterStored(stay), stay)
    const { db } = world.api.database
    const status = async (table: 'cohort' | 'structured_run', id: string) =>
      (await db.selectFrom(table).select('status').where('id', '=', id).executeTakeFirstOrThrow()).status
    assert.deepEqual(
      [await status('cohort', cohort.id), await status('structured_run', run.id)],
      ['failed', 'failed'],
    )
  })

  it('are kept while a row needs them, and swept a day after their cohort or run has ended', async () => {
    const { db } = world.api.database
    const [cohort, run] = [await openCohort(), await openRun()]
    const ended = [await openCohort(), await openRun()] as const
    await db.updateTable('cohort').set({ status: 'failed' }).where('id', '=', ended[0].id).execute()
    await db.updateTable('structured_run').set({ status: 'rejected' }).where('id', '=', ended[1].id).execute()
    await db
      .updateTable('task')
      .set({ status: 'failed', completed_at: new Date() })
      .where('id', 'in', db.selectFrom('cohort').select('task_id').where('id', '=', ended[0].id))
      .execute()
    const lost = [
      await put('cohorts/an-account/a-cohort/an-edge/1'),
      await put('evaluations/a-run/source.npy'),
    ]
    const sweep = (hours: number) =>
      runTwice(
        createMaintenanceActivities({
          ...world.api.services,
          now: () => new Date(Date.now() + hours * HOUR),
        }),
      ).removeOutlivedFiles()

    await sweep(0)
    const young = [ended[0].relayed, ended[1].vectors, ended[1].map, ...lost]
    assert.deepEqual(
      await filterStored([...young, ended[0].file]),
      young,
      "the failed stage's file must be deleted at once",
    )
    await sweep(25)

    const needed = [cohort.relayed, cohort.file, run.vectors, run.map]
    assert.deepEqual(await filterStored([...needed, ...young]), needed)
  })

  it('with adapters are removed a day after their evidence ended, unless an open hand-over uses it', async () => {
    const { db } = world.api.database
    const ago = (hours: number) => new Date(Date.now() - hours * HOUR)
    const evidence = async (row: Partial<NewEvidence>) => {
      const id = newId()
      const pair = { source_fingerprint: id, target_fingerprint: id }
      const measured = {
        relation: 'affine',
        metric: 'cosine',
        score: 0.9,
        statement: '{}',
        digest: id,
      } as const
      const spaces = { source_space_id: spaceId, target_space_id: spaceId }
      await db
        .insertInto('compatibility_evidence')
        .values({ id, ...spaces, ...pair, ...measured, valid_until: ago(-1), ...row })
        .execute()
      return { id, map: await put(evidenceKey(id)) }
    }
    const old = { status: 'superseded', ended_at: ago(25) } as const
    const counts = await evidence({})
    const justEnded = [
      await evidence({ status: 'revoked', ended_at: ago(23) }),
      await evidence({ valid_until: ago(23) }),
    ]
    const ended = [await evidence(old), await evidence({ valid_until: ago(25) })]
    const [usedNow, usedBefore] = [await evidence(old), await evidence(old)]
    for (const [{ id: evidence_id }, closed] of [
      [usedNow, false],
      [usedBefore, true],
    ] as const) {
      const cohort = await buildCohort(db, world.accountId)
      const stages = [await buildStage(db, cohort), await buildStage(db, cohort, { position: 1 })] as const
      await buildEdge(db, stages, { kind: 'embedding', evidence_id, closed })
    }
    const unregistered = await put(evidenceKey((await openRun()).id))
    const orphan = await put(evidenceKey(newId()))
    const sweep = (hours: number) =>
      runTwice(
        createMaintenanceActivities({ ...world.api.services, now: () => ago(-hours) }),
      ).removeOutlivedFiles()
    const all = [counts, ...justEnded, ...ended, usedNow, usedBefore].map(({ map }) => map)

    await sweep(0)
    assert.deepEqual(await filterStored([...all, unregistered, orphan]), [...all, unregistered, orphan])
    await sweep(25)

    const kept = [counts, ...justEnded, usedNow].map(({ map }) => map)
    assert.deepEqual(await filterStored([...all, unregistered, orphan]), [...kept, unregistered])
  })

  it('are removed one batch per step', async () => {
    const keys = await Promise.all(Array.from({ length: 201 }, () => put(evidenceKey(newId()))))
    const later = { ...world.api.services, now: () => new Date(Date.now() + 25 * HOUR) }
    const keep = createMaintenanceActivities(later)

    assert.equal((await keep.removeOutlivedFiles()).more, true)
    assert.equal((await filterStored(keys)).length, 1)
    assert.equal((await keep.removeOutlivedFiles()).more, false)
    assert.deepEqual(await filterStored(keys), [])
  })

  it('are listed only up to the batch to be removed', async () => {
    const keys = await Promise.all(Array.from({ length: 700 }, () => put(evidenceKey(newId()))))
    const { objects } = world.api.services
    let read = 0
    const counting = new Proxy(objects, {
      get(target, name: keyof typeof objects) {
        const member: unknown = target[name]
        if (name !== 'list') return typeof member === 'function' ? (member.bind(target) as unknown) : member
        return async function* (prefix: string) {
          for await (const file of target.list(prefix)) {
            if (prefix === EVIDENCE) read += 1
            yield file
          }
        }
      },
    })
    const later = { ...world.api.services, objects: counting, now: () => new Date(Date.now() + 25 * HOUR) }

    const { more } = await createMaintenanceActivities(later).removeOutlivedFiles()

    assert.equal(more, true)
    assert.equal((await filterStored(keys)).length, 500)
    assert.ok(read < 500, `${read} files were read`)
  })
})
