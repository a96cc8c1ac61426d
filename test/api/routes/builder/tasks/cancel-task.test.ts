import assert from 'node:assert/strict'
import { PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { buildCohort, buildStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'

describe('cancelling a task', () => {
  let on: InferenceApi
  before(async () => {
    on = await InferenceApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const cancel = (taskId: string, key: string, userId: string) =>
    on.api.call('POST', `/api/builder/v1/tasks/${taskId}:cancel`, { key, headers: { 'x-user-id': userId } })

  it("ignores the request's user id for a plain task, however long", async () => {
    const { key } = await on.api.account()
    const endpoint = await on.endpointOver(await on.loadedModel(), PUBLIC_LISTING)
    const queued = await on.infer(endpoint.id, { input: { instances: [1] }, sync: false }, key)

    const { status, text } = await cancel(queued.body.task_id, key, 'u'.repeat(201))

    assert.equal(status, 200, text)
  })

  it('cancels its cohort too, whose event records the user id truncated to 200 characters', async () => {
    const { db } = on.api.database
    const { accountId, key } = await on.api.account()
    const cohort = await buildCohort(db, accountId)
    await buildStage(db, cohort)
    await db.updateTable('task').set({ surface: 'cohort' }).where('id', '=', cohort.task_id).execute()

    const { status, text } = await cancel(cohort.task_id, key, 'u'.repeat(201))

    assert.equal(status, 200, text)
    const event = await db
      .selectFrom('cohort_event')
      .select('data')
      .where('cohort_id', '=', cohort.id)
      .where('type', '=', 'cohort.cancel_requested')
      .executeTakeFirst()
    assert.deepEqual(event?.data, { user_id: 'u'.repeat(200) })
  })
})
