import { getHubFile } from './get-hub-file.ts'
import { getNodeModel } from './get-node-model.ts'
import { getNodeModelExpectation } from './get-node-model-expectation.ts'
import { issueTemporalCredential } from './issue-temporal-credential.ts'
import { joinNode } from './join-node.ts'
import { listNodes } from './list-nodes.ts'
import { dedicateNode, drainNode, removeNode, resumeNode, shareNode } from './move-node.ts'

export const nodes = [
  joinNode,
  issueTemporalCredential,
  getNodeModel,
  getNodeModelExpectation,
  getHubFile,
  listNodes,
  drainNode,
  resumeNode,
  shareNode,
  dedicateNode,
  removeNode,
]
