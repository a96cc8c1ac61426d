import * as planRepository from '../../../../db/repositories/cohorts/plans.ts'
import { temporaryError } from '../../../../domain/errors.ts'
import { Plan, PlanRequest } from '../../../../schemas/cohorts/plan.ts'
import { ensureSpacesOf } from '../../../cohorts/ensure-spaces.ts'
import { planRequest } from '../../../cohorts/plan-request.ts'
import { route } from '../../../http/route.ts'

/** A plan is valid for ten minutes, so this allows about three plans a second. */
const MAX_PLANS = 2_000
const RETRY_AFTER_S = 60
/**
 * A large plan occupies a CPU for up to half a second, so an account can use at most a tenth of a CPU for its plans.
 */
const REST_FACTOR = 9
/** Caps the pause, because the measured duration includes database waits, which don't occupy a thread. */
const MAX_REST_MS = 500

export const planCohort = route({
  operationId: 'planCohort',
  summary: 'Plan a graph of models across the nodes, and explain where each stage would run',
  method: 'POST',
  path: '/cohorts:plan',
  auth: 'cohort',
  // A plan starts nothing.
  role: 'viewer',
  body: PlanRequest,
  success: { status: 200, schema: Plan },

  async handler({ caller: { accountId }, body, signal }, services) {
    const { db, now, longAnswers, planner } = services
    using turn = await longAnswers.take(accountId, signal)
    if (!(await planRepository.canAddPlan(db, accountId, MAX_PLANS))) throw tooManyPlans()
    const began = performance.now()
    try {
      await ensureSpacesOf(services, body)
      const { plan } = await planRequest({ db, planner }, { accountId, request: body, now: now(), signal })
      await planRepository.insertPlan(db, accountId, body, plan)
      return plan
    } finally {
      turn.restForMs(Math.min(MAX_REST_MS, (performance.now() - began) * REST_FACTOR))
    }
  },
})

const tooManyPlans = () =>
  temporaryError(
    'rate_limited',
    `an account may have ${MAX_PLANS.toLocaleString('en')} plans that have not expired; run or reuse one, or try again when some have expired`,
    RETRY_AFTER_S,
  )
