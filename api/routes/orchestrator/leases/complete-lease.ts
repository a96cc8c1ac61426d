import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import { CompleteLease, LeaseClosed } from '../../../../schemas/nodes/lease.ts'
import { route } from '../../../http/route.ts'
import { workOf } from './kinds.ts'
import { LeaseParams } from './params.ts'
import { settleLease } from './settle.ts'
import { leaseNotFound, leaseLost } from './work.ts'

const MIB = 1024 * 1024

export const completeLease = route({
  operationId: 'completeLease',
  summary: 'Complete the lease of a task, stage or job with its result',
  method: 'POST',
  path: '/leases/{lease_token}:complete',
  auth: 'node-signature',
  params: LeaseParams,
  body: CompleteLease,
  maxBodyBytes: 64 * MIB,
  success: { status: 200, schema: LeaseClosed },
  errors: ['not_found', 'conflict', 'validation_failed'],

  async handler({ caller, params, body, afterCommit }, services) {
    const holder = { token: params.lease_token, nodeId: caller.nodeId }
    const lease = await leaseRepository.findLease(services.db, holder)
    if (!lease) throw leaseNotFound()
    // This request repeats one whose response may have been lost.
    if (lease.state === 'completed') return { state: lease.state }
    const work = workOf(lease)
    const checked = await work.check?.({ lease, body, services })

    await settleLease({ lease, body, services, afterCommit }, async (step) => {
      if (!(await leaseRepository.lockActiveLease(step.trx, holder))) {
        const lost = (await leaseRepository.findLease(step.trx, holder)) ?? lease
        if (lost.state === 'completed') return
        throw leaseLost(lost)
      }
      await work.complete(step, checked)
      await leaseRepository.closeLease(step.trx, holder, 'completed')
    })
    return { state: 'completed' as const }
  },
})
