import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import { ArtifactList, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'

export const listArtifacts = route({
  operationId: 'listArtifacts',
  summary: 'List the files of a finished model',
  method: 'GET',
  path: '/training/runs/{run_id}/artifacts',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 200, schema: ArtifactList },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    const artifacts = await jobFileRepository.listArtifacts(db, run.id)
    return {
      job_id: run.id,
      artifacts: artifacts.map(({ filename, size_bytes, last_modified }) => ({
        filename,
        size_bytes,
        last_modified: last_modified.toISOString(),
      })),
      total_files: artifacts.length,
      total_size_bytes: artifacts.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
    }
  },
})
