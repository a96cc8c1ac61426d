import * as jobFileRepository from '../../../../db/repositories/training/job-files.ts'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import * as pauseRepository from '../../../../db/repositories/training/pauses.ts'
import * as waitingJobRepository from '../../../../db/repositories/training/waiting.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { DISK_FULL, invalid } from '../../../../domain/errors.ts'
import { ROOM_WAITS } from '../../../../domain/waiting.ts'
import type { CompleteJob, CompleteLease } from '../../../../schemas/nodes/lease.ts'
import type { LeaseWork } from '../leases/work.ts'
import { assertStored } from './stored-file.ts'

/** Failure codes that do not count against the run: another attempt follows. */
const INTERRUPTIONS = new Set(['preempted', 'paused', 'drained', 'cancelled', DISK_FULL])

const ROOM_AGAIN = 'There is enough space again.'

/** The limit for the metrics and for each schema and example, because responses and lists contain them in full. */
const MAX_RESULT_CHARS = 2 * 1024 * 1024

const fileKey: LeaseWork['fileKey'] = ({ account_id, subject_id, attempt }: LeaseRow, file) =>
  jobFileRepository.attemptFile({ account_id, id: subject_id }, { attempt, ...file })

function jobResult(body: CompleteLease): CompleteJob {
  if ('artifacts' in body) return body
  throw invalid(['body', 'artifacts'], 'Field required', 'missing')
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

/** The rules of a lease on a job. Completing it stores the result; the workflow ends the run. */
export const jobWork = {
  fileKey,

  async lock(trx, lease) {
    await jobRepository.lockJob(trx, lease.subject_id)
  },

  async progress({ db }, { subject_id, attempt }, { progress_pct, metadata }) {
    const { step, of, eta_s } = metadata
    if (!isCount(step) || !isCount(of)) return
    const progress = { pct: progress_pct, step, of, eta_s: isCount(eta_s) ? eta_s : null }
    await jobRepository.recordProgress(db, { id: subject_id, attempt }, progress)
  },

  async waits({ db, now }, { subject_id: id, attempt }, kind) {
    const reason = kind === null ? null : ROOM_WAITS[kind]
    await db
      .transaction()
      .execute((trx) => waitingJobRepository.noteWaiting(trx, { id, attempt }, reason, now(), ROOM_AGAIN))
  },

  isPaused: ({ db }, { subject_id }) => pauseRepository.isPaused(db, subject_id),

  async check({ lease, body, services: { objects } }) {
    const { artifacts, ...texts } = jobResult(body)
    for (const [name, value] of Object.entries(texts)) {
      if (JSON.stringify(value).length > MAX_RESULT_CHARS) {
        throw invalid(['body', name], `holds more than ${MAX_RESULT_CHARS} characters of JSON`)
      }
    }
    await Promise.all(
      artifacts.map((file) =>
        assertStored(objects, (reported) => fileKey(lease, { kind: 'artifact', ...reported }), file),
      ),
    )
  },

  async complete({ trx, lease, body, services: { now } }) {
    const { artifacts, metrics, ...output } = jobResult(body)
    const jobId = lease.subject_id
    const files = artifacts.map((file) => ({
      job_id: jobId,
      object_key: fileKey(lease, { kind: 'artifact', ...file }),
      ...file,
    }))
    await jobFileRepository.replaceArtifacts(trx, jobId, files, now())
    await jobRepository.recordResult(trx, jobId, { metrics, output })
    await jobRecordRepository.insertJobEvents(
      trx,
      artifacts.map(({ filename }) => ({
        jobId,
        type: 'artifact_uploaded',
        occurrence: filename,
        detail: filename,
      })),
      now(),
    )
  },

  async fail({ trx, lease, body: { code, message }, services: { now } }) {
    const jobId = lease.subject_id
    if (!INTERRUPTIONS.has(code)) await jobRepository.recordFailure(trx, jobId, message)
    if (code === DISK_FULL)
      await waitingJobRepository.noteWaiting(
        trx,
        { id: jobId, attempt: lease.attempt },
        ROOM_WAITS.disk,
        now(),
        ROOM_AGAIN,
      )
    if (code !== 'preempted') return
    await jobRecordRepository.insertJobEvents(
      trx,
      [{ jobId, type: 'preempted', occurrence: lease.attempt, detail: message }],
      now(),
    )
  },
} satisfies LeaseWork
