import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { CheckpointRegistered, RegisterCheckpoint } from '../../../../schemas/nodes/lease.ts'
import { emit } from '../../../events.ts'
import { route } from '../../../http/route.ts'
import { jobWork } from '../jobs/lease-work.ts'
import { progressUnit } from '../jobs/specification.ts'
import { assertStored } from '../jobs/stored-file.ts'
import { LeaseParams } from './params.ts'
import { leaseNotFound, leaseLost } from './work.ts'

/** Retain the checkpoint to resume from, and the previous one in case the newest is unusable. */
const KEPT = 2

export const registerCheckpoint = route({
  operationId: 'registerCheckpoint',
  summary: 'Register a stored checkpoint',
  method: 'POST',
  path: '/leases/{lease_token}:checkpoint',
  auth: 'node-signature',
  params: LeaseParams,
  body: RegisterCheckpoint,
  success: { status: 200, schema: CheckpointRegistered },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, body }, { db, catalog, objects, now, log }) {
    const holder = { token: params.lease_token, nodeId: caller.nodeId }
    const lease = await leaseRepository.findLease(db, holder)
    if (!lease || lease.kind !== 'job') throw leaseNotFound()

    const objectKey = await assertStored(
      objects,
      (file) => jobWork.fileKey(lease, { kind: 'checkpoint', ...file }),
      body,
    )
    const registered = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, lease.subject_id)
      if (!run || !(await leaseRepository.lockActiveLease(trx, holder))) {
        throw leaseLost((await leaseRepository.findLease(trx, holder)) ?? lease)
      }
      const { filename: _, ...file } = body
      const id = await jobFileRepository.insertCheckpoint(trx, {
        job_id: run.id,
        attempt: lease.attempt,
        object_key: objectKey,
        config_digest: run.config_digest,
        ...file,
      })
      const detail = `${progressUnit(catalog, run)} ${body.epoch}`
      await jobRecordRepository.insertJobEvents(
        trx,
        [{ jobId: run.id, type: 'checkpoint', occurrence: id, detail }],
        now(),
      )
      const pause = run.paused_at !== null
      const preempt =
        pause ||
        (run.operating_mode === 'eco' &&
          (await jobRepository.mustYield(trx, { ...run, nodeId: lease.node_id })))
      return { id, pause, preempt, superseded: await jobFileRepository.pruneCheckpoints(trx, run.id, KEPT) }
    })
    for (const key of registered.superseded) {
      // A file that could not be deleted now is deleted with the run.
      objects.delete(key).catch((err: unknown) => emit(log, 'checkpoint.delete_failed', { err }))
    }
    const { id: checkpoint_id, pause, preempt } = registered
    return { checkpoint_id, preempt, ...(pause && { pause }) }
  },
})
