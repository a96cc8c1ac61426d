import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isTerminal } from '../../../../domain/training/training-run.ts'
import { TrainingRunParams } from '../../../../schemas/training-run.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { jobRemovalStart } from '../../../../workflows/contract/starts.ts'
import { emit } from '../../../events.ts'
import { route } from '../../../http/route.ts'
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

  async handler({ caller, params, log, afterCommit }, { db, now, outbox, temporal }) {
    await requireRun(db, caller.accountId, params.run_id)
    const removed = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, params.run_id)
      if (!run) throw noSuchRun()
      if (!isTerminal(run.status)) {
        throw new ApiError('conflict', `a run that is ${run.status} cannot be deleted; cancel it first`, {
          details: { status: run.status },
        })
      }
      const version = await versionRepository.lockVersionOfJob(trx, run.id)
      const user = version && (await versionRepository.findVersionBlocker(trx, version))
      if (user) throw new ApiError('conflict', `the model of this run is in use: ${user}`)

      if (version) await versionRepository.removeVersion(trx, version.id)
      await jobRepository.deleteJob(trx, run.id, now())
      // A workflow removes the files after the commit: never while rows refer to them, but always eventually.
      await workflowStartRepository.enqueueWorkflow(
        trx,
        jobRemovalStart({ accountId: caller.accountId, jobId: run.id }),
      )
      return version
    })
    outbox.poke()
    if (removed?.lifecycle_status !== 'candidate') return
    afterCommit(() => {
      temporal.workflow
        .getHandle(WORKFLOW_ID.candidateTest(removed.id))
        .cancel()
        .catch((err: unknown) => emit(log, 'version.test_cancel_failed', { err }))
    })
  },
})
