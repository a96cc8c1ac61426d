import Type from 'typebox'
import * as cohortPageRepository from '../../../../db/repositories/cohorts/pages.ts'
import { invalid } from '../../../../domain/errors.ts'
import { CohortEvents } from '../../../../schemas/cohorts/cohort.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { TaskParams } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { presentEvent } from './present.ts'
import { requireCohort } from './require-cohort.ts'

export const listCohortEvents = route({
  operationId: 'listCohortEvents',
  summary: "List the events of a task's cohort, oldest first",
  method: 'GET',
  path: '/tasks/{task_id}/cohort/events',
  auth: 'cohort',
  params: TaskParams,
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
    cursor: Type.Optional({
      ...Uuid,
      description: 'The last event that you have seen; the page starts after it',
    }),
  }),
  success: { status: 200, schema: CohortEvents },
  isLong: true,
  errors: ['not_found'],

  async handler({ caller: { accountId }, params, query: { limit = 100, cursor } }, services) {
    const { db } = services
    const { id: cohortId, task_id } = await requireCohort(services, accountId, params.task_id)
    const after =
      cursor === undefined ? 0 : await cohortPageRepository.sequenceOf(db, { cohortId, eventId: cursor })
    if (after === undefined) throw invalid(['query', 'cursor'], 'is not an event of this cohort')
    const rows = await cohortPageRepository.readEvents(db, { cohortId, after, limit: limit + 1 })
    const page = rows.slice(0, limit)
    return {
      events: page.map((row) => presentEvent(row, task_id)),
      next_cursor: rows.length > limit ? (page.at(-1)?.id ?? null) : null,
    }
  },
})
