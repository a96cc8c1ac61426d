import { getHubFile } from './get-hub-file.ts'
import { getNodeModel } from './get-node-model.ts'
import { joinNode } from './join-node.ts'
import { listNodes } from './list-nodes.ts'
import { drainNode, removeNode, resumeNode } from './move-node.ts'

export const nodes = [joinNode, getNodeModel, getHubFile, listNodes, drainNode, resumeNode, removeNode]
