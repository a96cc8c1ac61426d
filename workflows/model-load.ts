import { proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { NodeActivities } from '../activities/node/index.ts'
import { POLICY, QUEUES } from './contract/policy.ts'

export interface ModelLoadInput {
  modelKey: string
  nodeId: string
}

/**
 * Makes one model warm on one node, visibly to operators. This workflow and all other callers that need the model there
 * share one load in the node's process.
 */
export async function modelLoad({ modelKey, nodeId }: ModelLoadInput): Promise<void> {
  const { loadModel } = proxyActivities<NodeActivities>({
    ...POLICY.load,
    taskQueue: QUEUES.node(nodeId),
    summary: `loads ${modelKey}`,
  })
  setCurrentDetails(`Node ${nodeId} loads ${modelKey}.`)
  await loadModel({ modelKey })
  setCurrentDetails(`${modelKey} is warm on node ${nodeId}.`)
}
