import { jobFolder } from '../../../db/repositories/job-files.ts'
import { deleteTrainingRun as deleteRows, lockTrainingRun } from '../../../db/repositories/training-runs.ts'
import { findVersionOfJob, removeVersion, whatUsesVersion } from '../../../db/repositories/versions.ts'
import { ApiError } from '../../../domain/errors.ts'
import { isTerminal } from '../../../domain/training-run.ts'
import { TrainingRunParams } from '../../../schemas/training-run.ts'
import { route } from '../../http/route.ts'
import { noSuchRun, requireRun } from './require-run.ts'

export const deleteTrainingRun = route({
  operationId: 'deleteTrainingRun',
  summary: 'Delete a training run that has ended, with its artifacts',
  method: 'DELETE',
  path: '/training/runs/{run_id}',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 204 },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params }, { db, objects, now }) {
    await requireRun(db, caller.accountId, params.run_id)
    await db.transaction().execute(async (trx) => {
      const run = await lockTrainingRun(trx, params.run_id)
      if (!run) throw noSuchRun()
      if (!isTerminal(run.status)) {
        throw new ApiError('conflict', `a run that is ${run.status} cannot be deleted; cancel it first`, {
          details: { status: run.status },
        })
      }
      const version = await findVersionOfJob(trx, run.id)
      const user = version && (await whatUsesVersion(trx, version))
      if (user) throw new ApiError('conflict', `the model of this run is in use: ${user}`)

      // Before the commit: whatever breaks in between, the run is still there to be deleted again.
      await objects.deletePrefix(jobFolder(run))
      if (version) await removeVersion(trx, version.id)
      await deleteRows(trx, run.id, now())
    })
  },
})
