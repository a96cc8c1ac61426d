import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import * as copyRepository from '../../../../db/repositories/nodes/copies.ts'
import { isAnswering } from '../../../../domain/endpoint.ts'
import { leastCopies } from '../../../../domain/placement/copy-wants.ts'
import { copiesOn } from '../../../../domain/placement/node-snapshot.ts'
import type { PinPlan } from '../../../../domain/placement/warm-pins.ts'
import type { Scaling } from '../../../../schemas/scaling.ts'
import type { Services } from '../../../services.ts'
import { endpointNotFound } from './access.ts'

const MAX_CHANGES = 20
/** The reasons in the plan name other accounts' nodes, so only operators see them. */
const MISSING = 'no other node that works for this account has room for the model and can load it'

/**
 * Presents the copies of an endpoint's model, from `plan` if given, otherwise from a plan that is at most a second old.
 */
export async function presentScaling(
  { db, config, copyPlanner, now }: Pick<Services, 'db' | 'config' | 'copyPlanner' | 'now'>,
  endpointId: string,
  plan?: PinPlan,
): Promise<Scaling> {
  const endpoint = await endpointRepository.findEndpointFacts(db, endpointId)
  if (!endpoint) throw endpointNotFound()
  const { id, name, model_key, min_warm, account_id, status } = endpoint
  const [scaling, decided, changes, planned, quota] = await Promise.all([
    copyRepository.findScaling(db, id),
    copyRepository.decidedCopies(db, model_key),
    copyRepository.listChanges(db, id, MAX_CHANGES),
    copyPlanner.preview(),
    copyRepository.copyQuota(db, {
      accountId: account_id,
      exceptId: null,
      defaultCopies: config.HEARTH_ACCOUNT_COPIES,
    }),
  ])
  const { min_copies = null, schedule = [] } = scaling ?? {}
  const isServed = isAnswering(status)
  const least = leastCopies({ min_warm, min_copies, schedule }, now())
  const effectiveMin = isServed ? least.copies : 0
  const isShort = (plan ?? planned.plan).short.has(model_key)
  return {
    endpoint_id: id,
    name,
    model_key,
    min: scaling?.min_copies ?? 0,
    effective_min: effectiveMin,
    effective_min_by: isServed ? least.by : 'paused',
    max: scaling?.max_copies ?? 1,
    target_in_flight: scaling?.target_in_flight ?? null,
    target_wait_ms: scaling?.target_wait_ms ?? null,
    idle_timeout_s: scaling?.idle_timeout_s ?? null,
    schedule,
    copies: { wanted: (scaling && decided) ?? effectiveMin, ...copiesOn(planned.snapshots, model_key) },
    missing: isServed
      ? isShort
        ? MISSING
        : null
      : `the endpoint is ${status}, so no copies are kept for it`,
    changes: changes.map(({ id: changeId, created_at, copies_before, copies, reason }) => ({
      id: changeId,
      at: created_at.toISOString(),
      from: copies_before,
      to: copies,
      reason,
    })),
    quota,
  }
}
