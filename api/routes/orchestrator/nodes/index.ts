import { dedicateNode } from './dedicate-node.ts'
import { drainNode } from './drain-node.ts'
import { getEvaluationWork } from './get-evaluation-work.ts'
import { getHubFile } from './get-hub-file.ts'
import { getNodeLogs } from './get-node-logs.ts'
import { getNodeMemory } from './get-node-memory.ts'
import { getNodeModelExpectation } from './get-node-model-expectation.ts'
import { getNodeModel } from './get-node-model.ts'
import { getNode } from './get-node.ts'
import { issueTemporalCredential } from './issue-temporal-credential.ts'
import { joinNode } from './join-node.ts'
import { listNodeTools } from './list-node-tools.ts'
import { listNodes } from './list-nodes.ts'
import { removeNode } from './remove-node.ts'
import { resumeNode } from './resume-node.ts'
import { shareNode } from './share-node.ts'

export const nodes = [
  joinNode,
  issueTemporalCredential,
  getNodeModel,
  getNodeModelExpectation,
  getHubFile,
  getEvaluationWork,
  listNodeTools,
  listNodes,
  getNode,
  getNodeLogs,
  getNodeMemory,
  drainNode,
  resumeNode,
  shareNode,
  dedicateNode,
  removeNode,
]
