import Type from 'typebox'
import * as dispatchRepository from '../../../../db/repositories/nodes/dispatches.ts'
import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isTerminal } from '../../../../domain/training/training-run.ts'
import { turnKeyOf } from '../../../../platform/turn-key.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { LEASE_SECONDS } from '../../../../schemas/nodes/lease-terms.ts'
import { ClaimRequest, JobClaim } from '../../../../schemas/nodes/lease.ts'
import { MergeClaim } from '../../../../schemas/training-merge.ts'
import { jobClaimed } from '../../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { emit } from '../../../events.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { baseOf } from './base-of.ts'
import { specifyMerge } from './merge-specification.ts'
import { keysOfBase, modelKeysOf } from './model-keys.ts'
import { estimateRunMemory, type RunWithMemory } from './run-memory.ts'
import { progressUnit, resumePoint, specify, startEvent } from './specification.ts'

export const claimJob = route({
  operationId: 'claimJob',
  summary: 'Claim a training run or merge',
  method: 'POST',
  path: '/jobs/{job_id}/claim',
  auth: 'node-signature',
  params: Type.Object({ job_id: Uuid }),
  body: ClaimRequest,
  success: { status: 200, schema: Type.Union([JobClaim, MergeClaim]) },
  errors: ['not_found', 'conflict', 'rate_limited', 'unavailable'],

  async handler({ caller, params, body, afterCommit, log }, services) {
    const { db, now, temporal, catalog } = services
    const jobId = params.job_id
    const dispatch = { kind: 'job', subjectId: jobId, nodeId: caller.nodeId } as const
    if (!(await dispatchRepository.mayClaim(db, dispatch))) throw noSuchJob()
    const prepared = await prepare(services, jobId, caller.nodeId)
    const { run, lease, checkpoint } = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, jobId)
      if (!run || !(await dispatchRepository.mayClaim(trx, dispatch))) throw noSuchJob()
      const earlier = await leaseRepository.findLastLease(trx, 'job', jobId)
      if (isTerminal(run.status) || earlier?.state === 'completed') {
        throw new ApiError('conflict', `this job is ${run.status} and accepts no more work`, {
          details: { state: 'closed' },
        })
      }
      if (run.paused_at !== null) {
        throw new ApiError('conflict', 'this job is paused', { details: { state: 'paused' } })
      }
      const lease = await leaseRepository.openLease(trx, {
        kind: 'job',
        subjectId: jobId,
        accountId: run.account_id,
        nodeId: caller.nodeId,
        leaseS: body.lease_s ?? LEASE_SECONDS.default,
      })
      if (!lease) {
        throw new ApiError('conflict', 'this job is held under another lease', { details: { state: 'held' } })
      }
      const checkpoint = await resumePoint(trx, run)
      await jobRepository.beginAttempt(trx, jobId, { attempt: lease.attempt, now: now() })
      await jobRecordRepository.insertJobEvents(
        trx,
        [await startEvent(trx, { run, lease, earlier, checkpoint, unit: progressUnit(catalog, run) })],
        now(),
      )
      return { run, lease, checkpoint }
    })

    // This signal only serves operators who inspect the workflow.
    afterCommit(() => {
      temporal.workflow
        .getHandle(WORKFLOW_ID.job(jobId))
        .signal(jobClaimed, { nodeId: caller.nodeId, attempt: lease.attempt })
        .catch((err: unknown) => emit(log, 'job.claim_signal_failed', { err }))
    })
    const work = 'merge' in prepared ? prepared : await specify(services, run, { ...prepared, checkpoint })
    const needed = 'merge' in work ? modelKeysOf(work.merge.ingredients) : keysOfBase(work.specification.base)
    await modelOrderRepository.grantModels(db, caller.nodeId, needed)
    return {
      job_id: jobId,
      lease_token: lease.token,
      lease_expires_at: lease.expires_at.toISOString(),
      attempt: lease.attempt,
      turn: turnKeyOf(run.account_id),
      ...work,
    }
  },
})

const noSuchJob = () => new ApiError('not_found', 'no such job is assigned to this node')

/**
 * Prepares a claim before the attempt begins, so that an unavailable hub or a node that is too small doesn't cost an
 * attempt.
 */
async function prepare(
  services: Services,
  jobId: string,
  nodeId: string,
): Promise<RunWithMemory | Pick<MergeClaim, 'merge'>> {
  const job = await jobRepository.findJob(services.db, jobId)
  if (!job || isTerminal(job.status)) return { base: null, memoryMb: 0 }
  if (job.job_type === 'merge') return specifyMerge(services, job, { nodeId, jobId })
  return estimateRunMemory(services, job, { base: await baseOf(services, job, { nodeId, jobId }), nodeId })
}
