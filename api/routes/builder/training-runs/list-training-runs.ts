import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { TrainingRunList, TrainingRunListQuery } from '../../../../schemas/training-run.ts'
import { readSortedPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentListedRun } from './present.ts'

export const listTrainingRuns = route({
  operationId: 'listTrainingRuns',
  summary: 'List training runs',
  method: 'GET',
  path: '/training/runs',
  auth: 'api-key',
  query: TrainingRunListQuery,
  success: { status: 200, schema: TrainingRunList },
  isLong: true,

  async handler({ caller: { accountId }, query }, { db }) {
    const { status, paused } = query
    const page = await readSortedPage(
      query,
      ['runs', accountId, status, ...(paused === undefined ? [] : [{ paused }])],
      (request) => jobRepository.listJobs(db, accountId, { ...request, status, paused }),
      (row) => row.job_name,
    )
    return { runs: page.items.map(presentListedRun), next_cursor: page.next_cursor }
  },
})
