import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import * as pauseRepository from '../../../../db/repositories/training/pauses.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isTerminal, PRIORITY } from '../../../../domain/training/training-run.ts'
import { TrainingRunParams, TrainingRunPaused } from '../../../../schemas/training-run.ts'
import { trainingRunResume } from '../../../../workflows/contract/starts.ts'
import { passKillSwitchIn } from '../../../http/kill-switch-gate.ts'
import { route } from '../../../http/route.ts'
import { assertQuota } from './assert-quota.ts'
import { jobWaitOf } from './job-wait.ts'
import { noSuchRun, requireRun } from './require-run.ts'

export const resumeTrainingRun = route({
  operationId: 'resumeTrainingRun',
  summary: 'Resume a paused training run from its newest checkpoint',
  method: 'POST',
  path: '/training/runs/{run_id}:resume',
  auth: 'api-key',
  admitsWork: true,
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunPaused },
  errors: ['not_found', 'conflict', 'training_quota_exceeded'],

  async handler({ caller: { accountId }, params }, { db, now, outbox }) {
    const found = await requireRun(db, accountId, params.run_id)
    const wait = await jobWaitOf(db, found, now())
    const { status } = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, found.id)
      if (!run) throw noSuchRun()
      if (isTerminal(run.status)) {
        throw new ApiError('conflict', `a run that has ${run.status} cannot be resumed`, {
          details: { status: run.status },
        })
      }
      if (run.paused_at === null) return run
      await assertQuota(trx, accountId, run.id)
      await pauseRepository.resumeRun(trx, run, wait, now())
      await workflowStartRepository.enqueueWorkflow(
        trx,
        trainingRunResume({
          jobId: run.id,
          accountId,
          modelConfigId: run.model_config_id,
          jobName: run.job_name,
          priority: PRIORITY[run.operating_mode],
          waiting: wait.reason,
        }),
      )
      await passKillSwitchIn(trx)
      return run
    })
    outbox.poke()
    return { run_id: found.id, status, paused: false }
  },
})
