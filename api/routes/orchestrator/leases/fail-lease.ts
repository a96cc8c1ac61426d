import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import { FailLease, LeaseClosed } from '../../../../schemas/nodes/lease.ts'
import { route } from '../../../http/route.ts'
import { workOf } from './kinds.ts'
import { LeaseParams } from './params.ts'
import { settleLease } from './settle.ts'
import { leaseNotFound, leaseLost } from './work.ts'

export const failLease = route({
  operationId: 'failLease',
  summary: 'End the lease of a task, stage or job without a result',
  method: 'POST',
  path: '/leases/{lease_token}:fail',
  auth: 'node-signature',
  params: LeaseParams,
  body: FailLease,
  success: { status: 200, schema: LeaseClosed },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, body, afterCommit }, services) {
    const holder = { token: params.lease_token, nodeId: caller.nodeId }
    const lease = await leaseRepository.findLease(services.db, holder)
    if (!lease) throw leaseNotFound()
    const closed = await settleLease({ lease, body, services, afterCommit }, async (step) => {
      const failed = await leaseRepository.closeLease(step.trx, holder, 'failed')
      if (failed) await workOf(lease).fail(step)
      return failed
    })
    if (closed) return { state: closed.state }

    // The platform closed the lease earlier; this request confirms that its processes have exited.
    const lost = (await leaseRepository.findLease(services.db, holder)) ?? lease
    if (lost.state === 'completed') throw leaseLost(lost)
    await leaseRepository.releaseLease(services.db, holder.token, holder.nodeId)
    return { state: lost.state }
  },
})
