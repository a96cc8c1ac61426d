import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import { endCohort } from '../../../../db/repositories/cohorts/endings.ts'
import {
  ResultPayloads,
  type ValuePayload,
  UnfitValuesError,
  valueKey,
} from '../../../../db/repositories/cohorts/payload-of.ts'
import * as cohortStageRepository from '../../../../db/repositories/cohorts/stages.ts'
import * as cohortStartRepository from '../../../../db/repositories/cohorts/starts.ts'
import * as unusableVersionRepository from '../../../../db/repositories/models/unusable-versions.ts'
import * as keyMeterRepository from '../../../../db/repositories/platform/key-meters.ts'
import * as usageRepository from '../../../../db/repositories/platform/usage.ts'
import * as taskUploadRepository from '../../../../db/repositories/tasks/uploads.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { isOpenStage } from '../../../../domain/cohorts/outcome.ts'
import { valueAt, whereItEnds } from '../../../../domain/cohorts/pointer.ts'
import { fileAddress, type StageFile, withFiles } from '../../../../domain/cohorts/stages/files.ts'
import { tokensOfStage } from '../../../../domain/cohorts/stages/tokens.ts'
import { isByValue } from '../../../../domain/cohorts/values.ts'
import { ApiError, type Issue } from '../../../../domain/errors.ts'
import { type LeaseFile, leaseFileKey, taskFolder } from '../../../../domain/object-keys.ts'
import type { CompleteLease } from '../../../../schemas/nodes/lease.ts'
import { tellStageStarted } from '../../../cohorts/tell-started.ts'
import { emit } from '../../../events.ts'
import type { Services } from '../../../services.ts'
import { assertStored } from '../jobs/stored-file.ts'
import type { LeaseWork } from '../leases/work.ts'
import { taskResult } from '../task-claims/lease-work.ts'

interface StageResult {
  result: Record<string, unknown>
  files: StageFile[] | undefined
}

/** A result with its payloads, which are built before anything is locked. */
interface CheckedResult extends StageResult {
  payloads: ResultPayloads
}

/** Returns a stage's result, with addresses for its files. */
function stageResult(lease: LeaseRow, body: CompleteLease): StageResult {
  const { result, outputs } = taskResult(body)
  if (!outputs) return { result, files: undefined }
  const files = outputs.map(({ filename, sha256, content_type, size_bytes, modality }, i) => ({
    address: fileAddress(lease.subject_id, i),
    filename,
    object_key: stageWork.fileKey(lease, { kind: 'output', filename, sha256 }),
    content_type,
    size_bytes,
    modality,
  }))
  return { result: withFiles(result, files), files }
}

/**
 * Maps a node's progress status to a stage status. Some models report `generating` without ever reporting `running`.
 */
const STEPS = new Map<string, 'loading' | 'waiting' | 'running'>([
  ['loading', 'loading'],
  ['waiting', 'waiting'],
  ['running', 'running'],
  ['generating', 'running'],
  ['uploading_output', 'running'],
])

function handedOver(
  payloads: ResultPayloads,
  edge: cohortStageRepository.ValuedEdge,
): ValuePayload | undefined {
  try {
    return payloads.of(edge)
  } catch (err) {
    throw err instanceof UnfitValuesError ? refused(err.message) : err
  }
}

const nothingAt = (whose: string, path: string, result: unknown): ApiError =>
  refused(
    `${whose} needs "${path}", which is missing from the result of this stage: ${whereItEnds(result, path)}`,
  )

/** The message becomes the stage's error, and its readers don't see the request that the issue refers to. */
function refused(message: string): ApiError {
  const issue: Issue = { loc: ['body', 'result'], msg: message, type: 'value_error' }
  return new ApiError('validation_failed', message, { details: { issues: [issue] } })
}

/**
 * The rules of a lease on a stage. Completing it ends the stage and hands over its values; the last stage to complete
 * ends the cohort.
 */
export const stageWork = {
  fileKey: ({ account_id, subject_id, attempt }, file) =>
    `${taskFolder({ accountId: account_id, taskId: subject_id })}${leaseFileKey(attempt, file)}`,

  noteSigned: (db, { subject_id, account_id }, until) =>
    taskUploadRepository.noteTaskUpload(db, { taskId: subject_id, accountId: account_id, until }),

  lock: (trx, lease) => cohortStageRepository.lockStage(trx, lease.subject_id),

  async progress(services, lease, { status, metadata }) {
    const step = STEPS.get(status)
    if (!step) return
    // Skip `generating` and `uploading_output`, which models report several times a second.
    if (step === status)
      await cohortStartRepository.noteCapacityWait(
        services.db,
        lease.subject_id,
        metadata['waits_for'] === 'no_room',
      )
    const stage = await services.db.transaction().execute(async (trx) => {
      const locked = await cohortStageRepository.lockStage(trx, lease.subject_id)
      const isNews = locked && (await cohortStageRepository.recordStep(trx, locked.stage, step))
      return isNews ? locked.stage : undefined
    })
    // Quorum met: the remaining producers are no longer needed.
    if (stage && step === 'running' && stage.outline.quorum !== undefined)
      void tellStageStarted(services, stage, { isRunning: true })
  },

  async check({ lease, body, services: { db, objects } }) {
    const keyOf = (file: Omit<LeaseFile, 'kind'>) => stageWork.fileKey(lease, { kind: 'output', ...file })
    await Promise.all((taskResult(body).outputs ?? []).map((file) => assertStored(objects, keyOf, file)))
    const checked = stageResult(lease, body)
    const payloads = new ResultPayloads(checked.result)
    const [outgoing, outputs] = await Promise.all([
      cohortStageRepository.outgoingOf(db, lease.subject_id),
      cohortStageRepository.outputsFrom(db, lease.subject_id),
    ])
    for (const edge of outgoing) {
      const value = handedOver(payloads, edge)
      if (!value && isByValue(edge.kind) && !edge.has_quorum)
        throw nothingAt(`edge "${edge.name}"`, edge.from_path, checked.result)
    }
    for (const { name, path } of outputs)
      if (valueAt(checked.result, path) === undefined)
        throw nothingAt(`output "${name}"`, path, checked.result)
    for (const edge of outgoing) {
      const value = handedOver(payloads, edge)
      if (!value) continue
      const key = valueKey({ edge, accountId: lease.account_id, value })
      if (key !== undefined) await objects.put(key, value.payload, { contentType: 'application/json' })
    }
    return { ...checked, payloads }
  },

  async complete({ trx, locked, body, services, afterCommit }, checked) {
    const { inference_time_ms, model_state } = taskResult(body)
    if (!locked || !isOpenStage(locked.stage)) return
    const { account_id: accountId, cohort_id: cohortId, endpoint_id: endpointId } = locked.stage
    const { operation } = locked.stage.outline
    const tokens = tokensOfStage(operation, checked.result)
    await cohortStageRepository.completeStage(trx, locked.stage, locked.outgoing, {
      ...checked,
      runMs: inference_time_ms,
      modelState: model_state,
      tokens,
    })
    const keyId = tokens === NO_TOKENS ? null : await cohortRepository.keyOfCohort(trx, cohortId)
    if (keyId !== null) {
      // A repeated stage counts once.
      const { tokens_in, tokens_out } = locked.stage
      const fresh = tokens.in + tokens.out - Number(tokens_in ?? 0) - Number(tokens_out ?? 0)
      await keyMeterRepository.addTokens(trx, keyId, { tokens: Math.max(0, fresh), now: services.now() })
    }
    // Prefill and decode stages would skew the endpoint's average latency.
    if (operation === 'infer')
      await usageRepository.noteLatency(trx, { accountId, endpointId, ms: inference_time_ms })
    if (locked.outgoing.length === 0 && (await cohortStageRepository.haveAllSucceeded(trx, cohortId)))
      afterCommit(() => void endCompleteCohort(services, cohortId))
  },

  async fail({ trx, locked, lease, body: { code, message, retryable } }) {
    if (!locked) return
    const { id, name, model_key } = locked.stage
    const isUnusable =
      code === 'unusable' &&
      (await unusableVersionRepository.markUnusable(trx, {
        modelKey: model_key,
        nodeId: lease.node_id,
        reason: message,
      }))
    // If this node's report about the weights does not count, let another node try.
    const mayRetry = retryable || (code === 'unusable' && !isUnusable)
    await cohortStageRepository.noteStageError(trx, id, {
      code,
      message,
      stage_id: name,
      retryable: mayRetry,
    })
  },
} satisfies LeaseWork<CheckedResult, cohortStageRepository.LockedStage | undefined>

/**
 * Ends a cohort whose stages have all succeeded, so clients see its result before the workflow learns of the last
 * stage. Never throws: the workflow ends every cohort that is still open, and removes every cohort's files.
 */
async function endCompleteCohort(
  { db, now, log }: Pick<Services, 'db' | 'now' | 'log'>,
  cohortId: string,
): Promise<void> {
  try {
    await db
      .transaction()
      .execute((trx) => endCohort(trx, cohortId, { status: 'succeeded' }, now(), { onlyComplete: true }))
  } catch (err) {
    emit(log, 'cohort.end_failed', { err, cohort_id: cohortId })
  }
}
