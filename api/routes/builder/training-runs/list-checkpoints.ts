import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import { CheckpointList, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'

export const listCheckpoints = route({
  operationId: 'listCheckpoints',
  summary: 'List the checkpoints that a training run can resume from, newest first',
  method: 'GET',
  path: '/training/runs/{run_id}/checkpoints',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 200, schema: CheckpointList },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    const checkpoints = await jobFileRepository.listCheckpoints(db, run.id)
    return {
      run_id: run.id,
      checkpoints: checkpoints.map(({ id, epoch, attempt, size_bytes, sha256, created_at }) => ({
        checkpoint_id: id,
        epoch,
        attempt,
        size_bytes,
        sha256,
        created_at: created_at.toISOString(),
      })),
    }
  },
})
