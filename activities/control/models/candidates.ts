import * as unusableVersionRepository from '../../../db/repositories/models/unusable-versions.ts'
import * as versionLifecycleRepository from '../../../db/repositories/models/version-lifecycle.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import { capacityFor } from '../../../domain/placement/gpu-capacity.ts'
import { serves } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import type { ControlDeps } from '../deps.ts'

/** A candidate that is waiting for its test. */
export interface Candidate {
  modelKey: string
}

export interface TestOutcome {
  versionId: string
  passed: boolean
  /** The reason why the version stays a candidate. */
  reason?: string
  /**
   * True when no node had room; the reason then also states the memory that the version needs and the memory of the
   * largest node.
   */
  isUnplaced?: boolean
  /**
   * True when the version stopped being a candidate during the test. By now it may be one again, with a new test that
   * could not start because this one was running. No note is stored then, so that housekeeping starts that test once
   * this one has closed.
   */
  isMoved?: boolean
}

export const createCandidateActivities = ({ db, now }: ControlDeps) => ({
  /** Returns null unless the version is still a candidate. Safe to repeat because it only reads. */
  async openCandidate(versionId: string): Promise<Candidate | null> {
    const version = await versionLifecycleRepository.findVersion(db, versionId)
    return version?.lifecycle_status === 'candidate' ? { modelKey: version.model_key } : null
  },

  /**
   * Orders the node that will test a version to load it. Returns null while no node can test it, and false once it is
   * no longer a candidate. Safe to repeat because an order is stored once.
   */
  async placeCandidate(versionId: string): Promise<string | null | false> {
    const version = await versionLifecycleRepository.findVersion(db, versionId)
    if (version?.lifecycle_status !== 'candidate') return false
    const index = new PlacementIndex()
    for (const snapshot of await nodeLoadRepository.readSnapshots(db)) index.put(snapshot)
    const { model_key, account_id, runtime_profile, memory_mb, tensor_parallel } = version
    const need = { model_key, account_id, runtime_profile, memory_mb, tensor_parallel, now: now().getTime() }
    const nodeId = index.place(need, Math.random).chosen?.node_id
    if (nodeId === undefined) return null
    await db
      .transaction()
      .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId, modelKey: model_key }))
    return nodeId
  },

  /**
   * Records a test's verdict. Safe to repeat because only a candidate is promoted, and the same note is stored once.
   */
  async closeCandidate({
    versionId,
    passed,
    reason = 'its test failed',
    isUnplaced,
    isMoved,
  }: TestOutcome): Promise<void> {
    if (isMoved) return
    const shortage = isUnplaced ? await describeShortage(db, versionId) : ''
    await db.transaction().execute(async (trx) => {
      // The node's report about the weights is more precise than the error type, which is all that the history
      // contains.
      const unusable = await unusableVersionRepository.lockUnusable(trx, versionId)
      await versionLifecycleRepository.moveVersion(trx, versionId, {
        from: ['candidate'],
        to: passed ? 'ready' : 'candidate',
        note: passed ? null : (unusable ?? reason + shortage),
        now: now(),
      })
    })
  },
})

/** Compares the memory that a version needs with that of the largest suitable node, as the end of a sentence. */
async function describeShortage(db: ControlDeps['db'], versionId: string): Promise<string> {
  const version = await versionLifecycleRepository.findVersion(db, versionId)
  if (!version) return ''
  const { account_id, runtime_profile, memory_mb } = version
  const able = (await nodeLoadRepository.readSnapshots(db)).filter(
    (node) => serves(node, account_id) && node.profiles.includes(runtime_profile),
  )
  if (able.length === 0) return `: it needs ${memory_mb} MB, and no node runs ${runtime_profile}`
  const largest = Math.max(...able.map((node) => capacityFor(node, version)))
  return `: it needs ${memory_mb} MB, and the largest node that runs ${runtime_profile} has ${largest} MB`
}
