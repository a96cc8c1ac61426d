import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  patched,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import type { NodeActivities } from '../activities/node/index.ts'
import type { TestVerdict } from '../activities/node/models/test-model.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from './contract/policy.ts'

const { openCandidate, placeCandidate, closeCandidate } = proxyLocalActivities<ControlActivities>(
  LOCAL.record,
)

export interface CandidateTestInput {
  versionId: string
}

/** After this many failed loads the model counts as impossible to load. */
const MAX_FAILED_LOADS = 3
/** The time that a candidate waits for a node with room for it. */
const WAIT_TIMEOUT_MS = 24 * 3_600_000
const MAX_REASON = 300
/** After this many tries without a verdict, on nodes with room for it, we assume the test will never reach one. */
const MAX_TRIES = 30

/**
 * candidate -> ready, or candidate with the reason. Callers see the version's row. Guarded updates change it, so that a
 * version that was disabled in the meantime stays disabled.
 */
export async function candidateTest({ versionId }: CandidateTestInput): Promise<void> {
  const candidate = await openCandidate(versionId)
  if (!candidate) return setCurrentDetails('The version is no longer a candidate.')
  try {
    const verdict = await testUntil(versionId, candidate.modelKey)
    await closeCandidate({ versionId, ...verdict })
    describe(verdict)
  } catch (err) {
    // A cancellation must not interrupt the step that records it.
    const reason = isCancellation(err) ? 'its test was cancelled' : 'its test could not be run'
    await CancellationScope.nonCancellable(() => closeCandidate({ versionId, passed: false, reason }))
    throw err
  }
}

function describe(verdict: TestVerdict): void {
  setCurrentDetails(
    verdict.passed ? 'The version is ready.' : `The version stays a candidate: ${verdict.reason}.`,
  )
}

async function testUntil(
  versionId: string,
  modelKey: string,
): Promise<TestVerdict & { isUnplaced?: boolean; isMoved?: boolean }> {
  const deadline = workflowInfo().startTime.getTime() + WAIT_TIMEOUT_MS
  let failed = 0
  let pause = 0
  let tries = 0
  while (Date.now() < deadline) {
    const nodeId = await placeCandidate(versionId)
    // No history of an earlier version contains this value, so it needs no patch.
    if (nodeId === false) return { passed: false, reason: 'it was moved while its test ran', isMoved: true }
    const outcome = nodeId ? await testOn(nodeId, modelKey) : undefined
    if (outcome && 'passed' in outcome) return outcome
    if (outcome?.code === 'unusable') {
      return { passed: false, reason: outcome.message.slice(0, MAX_REASON) }
    }
    if (outcome?.code === 'load_failed' && ++failed >= MAX_FAILED_LOADS) {
      return { passed: false, reason: `it could not be loaded: ${outcome.message}`.slice(0, MAX_REASON) }
    }
    // Evaluated once per history, so that a replay of a history that was past this point takes the same branch.
    if (outcome && ++tries === MAX_TRIES && patched('bounded-candidate-tests')) {
      const reason = `its test ended ${MAX_TRIES} times without a verdict: ${outcome.message}`
      return { passed: false, reason: reason.slice(0, MAX_REASON) }
    }
    setCurrentDetails(
      outcome
        ? `The test on node ${nodeId} ended with ${outcome.code}; another follows.`
        : 'Waiting for a node with room.',
    )
    pause = Math.min(PAUSE.forCapacity.longestMs, pause ? 2 * pause : PAUSE.forCapacity.firstMs)
    await sleep(pause)
  }
  return { passed: false, reason: 'no node could load it within 24 hours', isUnplaced: true }
}

async function testOn(
  nodeId: string,
  modelKey: string,
): Promise<TestVerdict | { code: string; message: string }> {
  const { testModel } = proxyActivities<NodeActivities>({
    ...POLICY.inferPlaced,
    taskQueue: QUEUES.node(nodeId),
    summary: `tests ${modelKey}`,
  })
  setCurrentDetails(`Node ${nodeId} is loading and testing ${modelKey}.`)
  try {
    return await testModel({ modelKey })
  } catch (err) {
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    return cause instanceof ApplicationFailure
      ? { code: cause.type ?? 'failed', message: cause.message }
      : { code: 'lost', message: 'the node was lost' }
  }
}
