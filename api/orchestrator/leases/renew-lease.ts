import { findLease, renewLease as extend } from '../../../db/repositories/leases.ts'
import { recordProgress } from '../../../db/repositories/tasks.ts'
import { LeaseRenewed, RenewLease } from '../../../schemas/lease.ts'
import { route } from '../../http/route.ts'
import { LeaseParams } from './params.ts'
import { noSuchLease, tooLate } from './work.ts'

export const renewLease = route({
  operationId: 'renewLease',
  summary: 'Keep a task or job',
  method: 'POST',
  path: '/leases/{lease_token}:renew',
  auth: 'node-signature',
  params: LeaseParams,
  body: RenewLease,
  success: { status: 200, schema: LeaseRenewed },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, body }, { db }) {
    const holder = { token: params.lease_token, nodeId: caller.nodeId }
    const lease = await extend(db, holder, body.lease_s)
    if (lease?.kind === 'task' && body.progress) await recordProgress(db, lease.subject_id, body.progress)
    if (lease) return { lease_expires_at: lease.expires_at.toISOString() }

    const lost = await findLease(db, holder)
    throw lost ? tooLate(lost) : noSuchLease()
  },
})
