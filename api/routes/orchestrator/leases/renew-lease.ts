import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import { invalid } from '../../../../domain/errors.ts'
import { LeaseRenewed, RenewLease } from '../../../../schemas/nodes/lease.ts'
import { route } from '../../../http/route.ts'
import { workOf } from './kinds.ts'
import { LeaseParams } from './params.ts'
import { leaseNotFound, leaseLost } from './work.ts'

/** The limit is small because callers get the progress with every read of their task. */
const MAX_PROGRESS_CHARS = 16 * 1024

export const renewLease = route({
  operationId: 'renewLease',
  summary: 'Renew the lease of a task, stage or job, and report progress',
  method: 'POST',
  path: '/leases/{lease_token}:renew',
  auth: 'node-signature',
  params: LeaseParams,
  body: RenewLease,
  success: { status: 200, schema: LeaseRenewed },
  errors: ['not_found', 'conflict', 'validation_failed'],

  async handler({ caller, params, body }, services) {
    const { db } = services
    if (JSON.stringify(body.progress ?? null).length > MAX_PROGRESS_CHARS) {
      throw invalid(['body', 'progress'], `holds more than ${MAX_PROGRESS_CHARS} characters of JSON`)
    }
    const holder = { token: params.lease_token, nodeId: caller.nodeId }
    const lease = await leaseRepository.renewLease(db, holder, body.lease_s)
    if (lease && body.progress) await workOf(lease).progress?.(services, lease, body.progress)
    if (lease && body.waiting !== undefined) await workOf(lease).waits?.(services, lease, body.waiting)
    if (lease) {
      const pause = (await workOf(lease).isPaused?.(services, lease)) ?? false
      return { lease_expires_at: lease.expires_at.toISOString(), ...(pause && { pause }) }
    }

    const lost = await leaseRepository.findLease(db, holder)
    throw lost ? leaseLost(lost) : leaseNotFound()
  },
})
