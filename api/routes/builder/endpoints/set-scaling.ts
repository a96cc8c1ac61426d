import { lockAccount } from '../../../../db/account-lock.ts'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import * as copyRepository from '../../../../db/repositories/nodes/copies.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { copiesOf } from '../../../../domain/placement/copies.ts'
import { faultOf, type ScheduleEntry } from '../../../../domain/placement/copy-schedule.ts'
import { reservesCopies } from '../../../../domain/placement/copy-wants.ts'
import { TOOL_PROFILE } from '../../../../domain/tools/catalog.ts'
import { Scaling, SetScaling } from '../../../../schemas/scaling.ts'
import { audit } from '../../../audit.ts'
import { route } from '../../../http/route.ts'
import { assertOwn, endpointNotFound, usableEndpointFacts } from './access.ts'
import { EndpointParams } from './params.ts'
import { presentScaling } from './present-scaling.ts'

export const setScaling = route({
  operationId: 'setScaling',
  summary: "Set the number of copies of an endpoint's model, and when copies are added and removed",
  method: 'PUT',
  path: '/endpoints/{endpoint_id}/scaling',
  auth: 'api-key',
  role: 'admin',
  params: EndpointParams,
  body: SetScaling,
  success: { status: 200, schema: Scaling },
  errors: ['not_found', 'forbidden', 'conflict'],

  async handler({ caller, params: { endpoint_id }, body }, services) {
    const { db, config, now, copyPlanner } = services
    const { accountId } = caller
    const endpoint = await usableEndpointFacts(db, accountId, endpoint_id)
    assertOwn(endpoint, accountId)
    if (endpoint.runtime_profile === TOOL_PROFILE)
      throw invalid(['body'], 'a tool starts for each request, so it has no copies')
    const { min = 0, max = 1 } = body
    const schedule = (body.schedule ?? []).map(({ timezone = 'UTC', ...entry }) => ({ timezone, ...entry }))
    assertConsistent({ ...body, min, max }, schedule)
    const reserved = reservesCopies({ min_copies: min, max_copies: max, schedule }) ? max : 0
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, 'copies', accountId)
      const before = await copyRepository.findScaling(trx, endpoint.id)
      const quota = await copyRepository.copyQuota(trx, {
        accountId,
        exceptId: endpoint.id,
        defaultCopies: config.HEARTH_ACCOUNT_COPIES,
      })
      if (reserved > (before?.reserved ?? 0)) assertQuota(quota, reserved)
      if (!(await endpointRepository.shareLockEndpoint(trx, endpoint.id))) throw endpointNotFound()
      const after = {
        endpoint_id: endpoint.id,
        min_copies: min,
        max_copies: max,
        target_in_flight: body.target_in_flight ?? null,
        target_wait_ms: body.target_wait_ms ?? null,
        idle_timeout_s: body.idle_timeout_s ?? null,
        schedule,
        reserved,
      }
      await copyRepository.writeScaling(trx, after, now())
      await audit(trx, {
        action: 'setScaling',
        subject: { kind: 'endpoint', id: endpoint.id },
        accountId,
        before: before && fieldsOf(before),
        after: fieldsOf(after),
        caller,
      })
    })
    return presentScaling(services, endpoint.id, await copyPlanner.replan())
  },
})

function assertConsistent(
  { min, max, target_in_flight, target_wait_ms }: SetScaling & { min: number; max: number },
  schedule: readonly ScheduleEntry[],
): void {
  if (min > max) throw invalid(['body', 'min'], `must be at most max, which is ${max}`)
  if (target_in_flight != null && target_wait_ms != null)
    throw invalid(['body', 'target_wait_ms'], 'cannot be combined with target_in_flight; choose one of them')
  for (const [i, entry] of schedule.entries()) {
    const fault = faultOf(entry)
    if (fault) throw invalid(['body', 'schedule', i, fault.field], fault.message)
    if (entry.min > max) throw invalid(['body', 'schedule', i, 'min'], `must be at most max, which is ${max}`)
  }
}

function assertQuota(
  { copies, reserved: others }: { copies: number; reserved: number },
  reserved: number,
): void {
  if (others + reserved <= copies) return
  throw new ApiError(
    'conflict',
    `the account may reserve ${copiesOf(copies)}, and its other endpoints reserve ${others}; lower max here or there, or ask an operator to raise the quota`,
    { details: { quota: copies, reserved: others } },
  )
}

/** The fields that the audit log shows. */
const fieldsOf = ({
  endpoint_id: _id,
  reserved: _reserved,
  ...fields
}: Omit<copyRepository.ScalingRow, 'updated_at'>) => fields
