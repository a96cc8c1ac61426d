import * as jobRepository from '../../../../../db/repositories/training/jobs.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { TrainingRunCancelled, TrainingRunParams } from '../../../../../schemas/training-run.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { cancelRun } from '../../../builder/training-runs/cancel-run.ts'
import { noSuchRun } from '../../../builder/training-runs/require-run.ts'

export const cancelAccountRun = route({
  operationId: 'cancelAccountRun',
  summary: 'Cancel a training run or merge of any account',
  method: 'POST',
  path: '/admin/runs/{run_id}:cancel',
  auth: 'operations-key',
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunCancelled },
  errors: ['not_found', 'conflict'],

  async handler({ params: { run_id } }, services) {
    const run = await jobRepository.findJob(services.db, run_id)
    if (!run || run.deleted_at) throw noSuchRun()
    const ended = await cancelRun(services, run_id, {
      detail: 'by an operator',
      inTransaction: (trx) =>
        audit(trx, {
          action: 'cancelAccountRun',
          subject: { kind: 'run', id: run_id },
          accountId: run.account_id,
          before: { status: run.status },
          after: { status: 'cancelled' },
        }),
    })
    if (ended) return { run_id, status: ended.status }
    const now = await jobRepository.findJob(services.db, run_id)
    if (now?.status === 'cancelled') return { run_id, status: now.status }
    throw new ApiError('conflict', `a run that has ${now?.status ?? 'ended'} cannot be cancelled`, {
      details: { status: now?.status ?? null },
    })
  },
})
