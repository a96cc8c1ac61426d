import { hash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { ApplicationFailure } from '@temporalio/common'
import { registerEvidence } from '../../../db/repositories/cohorts/register-evidence.ts'
import * as structuredRunRepository from '../../../db/repositories/cohorts/structured-runs.ts'
import * as versionLifecycleRepository from '../../../db/repositories/models/version-lifecycle.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import type { StructuredRunRow } from '../../../db/tables/evaluator.ts'
import { faultOfAdapter } from '../../../domain/cohorts/adapter.ts'
import { ApiError } from '../../../domain/errors.ts'
import { evaluationFolder, evaluationKey, evidenceKey } from '../../../domain/object-keys.ts'
import { serves } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import type {
  CompatibilityEvidenceRegistration,
  FittedMap,
  StructuredRunStatus,
  Verdict,
} from '../../../schemas/cohorts/evaluator.ts'
import type { EvaluationStep } from '../../../schemas/evaluation-work.ts'
import type { ControlDeps } from '../deps.ts'

const DAY_MS = 86_400_000
const STATUS: Readonly<Record<EvaluationStep, StructuredRunStatus>> = {
  source: 'embedding',
  target: 'embedding',
  fit: 'fitting',
  judge: 'judging',
}

export interface EvaluationVerdict {
  runId: string
  fit: FittedMap
  verdict: Verdict
}

export const createEvaluationActivities = ({ db, objects, now }: ControlDeps) => ({
  /** Returns whether a run is still open. Safe to repeat because it only reads. */
  async isEvaluationOpen(runId: string): Promise<boolean> {
    const run = await structuredRunRepository.findRun(db, runId)
    return run !== undefined && !structuredRunRepository.hasEnded(run)
  },

  /**
   * Assigns a step to a node that has room for the step's model; returns null while no node has room. Steps without
   * their own model go to the target model's node. Safe to repeat because a step belongs to the node it was last
   * assigned to.
   */
  async placeEvaluation({ runId, step }: { runId: string; step: EvaluationStep }): Promise<string | null> {
    const run = await structuredRunRepository.findRun(db, runId)
    const version = run && (await versionLifecycleRepository.findVersion(db, versionOf(run, step)))
    if (!version) throw ApplicationFailure.nonRetryable("the run's model no longer exists", 'not_found')
    const index = new PlacementIndex()
    // The node reads the inputs, which may belong to a different account than the model.
    const able = (await nodeLoadRepository.readSnapshots(db)).filter((node) => serves(node, run.account_id))
    for (const snapshot of able) index.put(snapshot)
    const { model_key, account_id, runtime_profile, memory_mb, tensor_parallel } = version
    const need = { model_key, account_id, runtime_profile, memory_mb, tensor_parallel, now: now().getTime() }
    const nodeId = index.place(need, Math.random).chosen?.node_id
    if (nodeId === undefined) return null
    await db.transaction().execute(async (trx) => {
      await modelOrderRepository.orderModel(trx, { nodeId, modelKey: model_key })
      await structuredRunRepository.giveStep(trx, runId, { step, nodeId, status: STATUS[step] })
    })
    return nodeId
  },

  /** Stores a run's map. Safe to repeat because the same map is stored again. */
  async noteFit({ runId, fit }: { runId: string; fit: FittedMap }): Promise<void> {
    await structuredRunRepository.storeFit(db, runId, fit)
  },

  /**
   * Ends a run with its verdict, and registers the evidence unless there is a reason not to. Safe to repeat because the
   * evidence has the run's id, and a run that has ended does not change.
   */
  async registerEvidence({ runId, fit, verdict }: EvaluationVerdict): Promise<StructuredRunStatus> {
    const run = await structuredRunRepository.findRun(db, runId)
    if (!run || structuredRunRepository.hasEnded(run)) return run?.status ?? 'failed'
    const { reasons } = verdict
    const bytes = reasons.length === 0 ? await readMap(objects, runId, fit) : undefined
    if (bytes) await objects.put(evidenceKey(runId), bytes, { contentType: 'application/octet-stream' })
    const outcome = bytes ? await register({ db, now }, run, { runId, fit, verdict }) : reasons
    if (outcome.length > 0) {
      await objects.delete(evidenceKey(runId))
      await structuredRunRepository.endRun(db, runId, { status: 'rejected', reasons: outcome, verdict })
    }
    await objects.deletePrefix(evaluationFolder(runId))
    return outcome.length > 0 ? 'rejected' : 'registered'
  },

  /** Fails a run that could not be completed. Safe to repeat because a run that has ended does not change. */
  async failEvaluation({ runId, code }: { runId: string; code: string }): Promise<void> {
    await structuredRunRepository.endRun(db, runId, { status: 'failed', reasons: [code] })
    await objects.deletePrefix(evaluationFolder(runId))
  },
})

/** Registers evidence and ends the run in one transaction; returns the reasons to reject the evidence, if any. */
async function register(
  { db, now }: Pick<ControlDeps, 'db' | 'now'>,
  run: StructuredRunRow,
  { fit, verdict }: EvaluationVerdict,
): Promise<string[]> {
  try {
    await db.transaction().execute(async (trx) => {
      const current = await structuredRunRepository.lockRun(trx, run.id)
      if (!current || structuredRunRepository.hasEnded(current)) return
      const body = statementOf(run, fit, verdict, now())
      await registerEvidence(trx, { id: run.id, body, objectKey: evidenceKey(run.id), now: now() })
      await structuredRunRepository.endRun(trx, run.id, {
        status: 'registered',
        reasons: [],
        verdict,
        evidenceId: run.id,
      })
    })
    return []
  } catch (err) {
    // The spaces may have been revoked or replaced in the meantime.
    if (err instanceof ApiError && err.status < 500)
      return [err.code === 'conflict' ? 'revoked' : 'superseded']
    throw err
  }
}

/** The version whose model a step calls. */
function versionOf(run: StructuredRunRow, step: EvaluationStep): string {
  if (step === 'source') return run.source_version_id
  const isAsked = step === 'judge' && run.request.metric === 'consumer_agreement'
  return (isAsked ? run.consumer_version_id : null) ?? run.target_version_id
}

const share = (value: number): number => Math.min(1, Math.max(0, value))

/** The statement that a run registers; the object store already holds its map. */
function statementOf(
  run: StructuredRunRow,
  fit: FittedMap,
  verdict: Verdict,
  now: Date,
): CompatibilityEvidenceRegistration {
  const { metric, anchors, valid_for_days } = run.request
  const { interval } = verdict
  return {
    source_space_id: run.source_space_id,
    target_space_id: run.target_space_id,
    relation: fit.relation,
    adapter: {
      uri: evidenceKey(run.id),
      sha256: fit.sha256,
      size_bytes: fit.size_bytes,
      format: 'safetensors',
      input_dimensions: fit.input_dimensions,
      output_dimensions: fit.output_dimensions,
    },
    metric,
    estimate: share(verdict.estimate),
    score: share(verdict.score),
    interval: { ...interval, low: share(interval.low), high: share(interval.high) },
    sample_count: verdict.sample_count,
    fit_count: verdict.fit_count,
    null_model: verdict.null_model,
    diagnostics: verdict.diagnostics,
    dataset_digest: run.dataset_digest,
    seed: anchors.seed,
    evaluator: { name: 'hearth', version: '1' },
    run_id: run.id,
    valid_until: new Date(now.getTime() + valid_for_days * DAY_MS).toISOString(),
  }
}

/** Reads the map that a node stored, and checks it like a map from outside the platform. */
async function readMap(objects: ObjectStore, runId: string, fit: FittedMap): Promise<Buffer> {
  const { body } = await objects.get(evaluationKey(runId, 'adapter'))
  const bytes = await buffer(body)
  const isTold = bytes.length === fit.size_bytes && hash('sha256', bytes) === fit.sha256
  if (!isTold || faultOfAdapter(bytes, fit) !== undefined) {
    throw ApplicationFailure.nonRetryable("the stored map does not match its node's report", 'map_invalid')
  }
  return bytes
}
