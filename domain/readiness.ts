import { type NodeSnapshot, serves, stageOf } from './placement/node-snapshot.ts'

/** On how many nodes a model is loaded, and how many more have it on disk. */
export interface ModelNodes {
  warm: number
  cached: number
}

const NOWHERE: ModelNodes = { warm: 0, cached: 0 }

/** Counts every model across the nodes that work for this account; `null` stands for any account. */
export function countModelNodes(
  nodes: readonly NodeSnapshot[],
  accountId: string | null,
): (modelKey: string) => ModelNodes {
  const counts = new Map<string, ModelNodes>()
  for (const node of nodes) {
    if (node.draining || !serves(node, accountId)) continue
    for (const model of node.models) {
      const stage = stageOf(model)
      if (stage === 'cold') continue
      const count = counts.get(model.model_key) ?? { ...NOWHERE }
      count[stage]++
      counts.set(model.model_key, count)
    }
  }
  return (modelKey) => counts.get(modelKey) ?? NOWHERE
}
