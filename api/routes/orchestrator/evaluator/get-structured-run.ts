import Type from 'typebox'
import * as structuredRunRepository from '../../../../db/repositories/cohorts/structured-runs.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { StructuredRun } from '../../../../schemas/cohorts/evaluator.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { route } from '../../../http/route.ts'

export const getStructuredRun = route({
  operationId: 'getStructuredRun',
  summary: 'Get the progress and the findings of a structured run',
  method: 'GET',
  path: '/internal/cohort/evaluator/structured-runs/{run_id}',
  auth: 'evaluator-token',
  params: Type.Object({ run_id: Uuid }),
  success: { status: 200, schema: StructuredRun },
  errors: ['not_found'],

  async handler({ params: { run_id } }, { db }) {
    const run = await structuredRunRepository.findRun(db, run_id)
    if (!run) throw new ApiError('not_found', 'there is no structured run with this id')
    return {
      run_id,
      workflow_id: WORKFLOW_ID.evaluation(run_id),
      status: run.status,
      source_space_id: run.source_space_id,
      target_space_id: run.target_space_id,
      metric: run.request.metric,
      threshold: run.request.threshold,
      estimate: run.verdict?.estimate ?? null,
      score: run.verdict?.score ?? null,
      reasons: run.reasons,
      evidence_id: run.evidence_id,
      map: run.fit,
      verdict: run.verdict,
      created_at: run.created_at.toISOString(),
      started_at: run.started_at?.toISOString() ?? null,
      completed_at: run.completed_at?.toISOString() ?? null,
    }
  },
})
