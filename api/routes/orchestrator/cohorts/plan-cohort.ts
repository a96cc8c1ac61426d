import * as planRepository from '../../../../db/repositories/cohorts/plans.ts'
import { Plan, PlanRequest } from '../../../../schemas/cohort-plan.ts'
import { ensureSpacesOf } from '../../../cohorts/ensure-spaces.ts'
import { planRequest } from '../../../cohorts/plan-request.ts'
import { route } from '../../../http/route.ts'

export const planCohort = route({
  operationId: 'planCohort',
  summary: 'Plan a graph of models over the nodes, and explain where each stage would run',
  method: 'POST',
  path: '/cohorts:plan',
  auth: 'cohort',
  // A plan starts nothing.
  role: 'viewer',
  body: PlanRequest,
  success: { status: 200, schema: Plan },

  async handler({ caller: { accountId }, body }, services) {
    const { db, now } = services
    await ensureSpacesOf(services, body)
    const { plan } = await planRequest(db, { accountId, request: body, now: now() })
    await planRepository.insertPlan(db, accountId, body, plan)
    return plan
  },
})
