import { lockUnusable } from '../../../db/repositories/models/unusable-versions.ts'
import { findVersion, moveVersion } from '../../../db/repositories/models/version-lifecycle.ts'
import { readSnapshots } from '../../../db/repositories/nodes/loads.ts'
import { orderModel } from '../../../db/repositories/nodes/model-orders.ts'
import { capacityFor } from '../../../domain/placement/gpu-room.ts'
import { serves } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import type { ControlDeps } from '../deps.ts'

/** A candidate that waits for its test. */
export interface Candidate {
  modelKey: string
}

export interface TestOutcome {
  versionId: string
  passed: boolean
  /** Why it stays a candidate. */
  reason?: string
  /** It found no node; what it needs and what there is then belongs to the reason. */
  isUnplaced?: boolean
}

export const createCandidateActivities = ({ db, now }: ControlDeps) => ({
  /** Null when the version is no candidate any more. Safe to repeat because it only reads. */
  async openCandidate(versionId: string): Promise<Candidate | null> {
    const version = await findVersion(db, versionId)
    return version?.lifecycle_status === 'candidate' ? { modelKey: version.model_key } : null
  },

  /** Orders a version on the node to test it on; null while none can take it. Safe to repeat: an order stands once. */
  async placeCandidate(versionId: string): Promise<string | null> {
    const version = await findVersion(db, versionId)
    if (!version) return null
    const index = new PlacementIndex()
    for (const snapshot of await readSnapshots(db)) index.put(snapshot)
    const { model_key, account_id, runtime_profile, memory_mb } = version
    const need = { model_key, account_id, runtime_profile, memory_mb, now: now().getTime() }
    const nodeId = index.place(need, Math.random).chosen?.node_id
    if (nodeId === undefined) return null
    await db.transaction().execute((trx) => orderModel(trx, { nodeId, modelKey: model_key }))
    return nodeId
  },

  /** Safe to repeat because only a candidate is promoted, and a note said twice stands once. */
  async closeCandidate({
    versionId,
    passed,
    reason = 'its test failed',
    isUnplaced,
  }: TestOutcome): Promise<void> {
    const shortage = isUnplaced ? await describeShortage(db, versionId) : ''
    await db.transaction().execute(async (trx) => {
      // What its node has said of its weights is worth more than the kind of the fault, which is all that history keeps.
      const unusable = await lockUnusable(trx, versionId)
      await moveVersion(trx, versionId, {
        from: ['candidate'],
        to: passed ? 'ready' : 'candidate',
        note: passed ? null : (unusable ?? reason + shortage),
        now: now(),
      })
    })
  },
})

/** What a version needs beside the largest node that runs such models, as the end of a sentence. */
async function describeShortage(db: ControlDeps['db'], versionId: string): Promise<string> {
  const version = await findVersion(db, versionId)
  if (!version) return ''
  const { account_id, runtime_profile, memory_mb } = version
  const able = (await readSnapshots(db)).filter(
    (node) => serves(node, account_id) && node.profiles.includes(runtime_profile),
  )
  if (able.length === 0) return `: it needs ${memory_mb} MB, and no node runs ${runtime_profile}`
  const largest = Math.max(...able.map((node) => capacityFor(node, runtime_profile)))
  return `: it needs ${memory_mb} MB, and the largest node that runs ${runtime_profile} has ${largest} MB`
}
