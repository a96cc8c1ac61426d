import type { EndpointEngineFault } from '../schemas/endpoint.ts'
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

/** Returns the engines that failed to serve a model on the nodes that work for this account, each error once. */
export function engineFaultsOf(
  nodes: readonly NodeSnapshot[],
  modelKey: string,
  accountId: string,
): EndpointEngineFault[] {
  const faults = new Map<string, EndpointEngineFault>()
  for (const node of nodes) {
    if (!serves(node, accountId)) continue
    const { engine_fault: fault, runtime_profile } =
      node.models.find(({ model_key }) => model_key === modelKey) ?? {}
    if (!fault || runtime_profile === undefined) continue
    const { retry_at } = fault
    faults.set(`${fault.runtime_profile} ${runtime_profile} ${fault.error}`, {
      runtime_profile: fault.runtime_profile,
      error: fault.error,
      served_by: runtime_profile,
      retry_at: retry_at === undefined ? null : new Date(retry_at).toISOString(),
    })
  }
  return [...faults.values()]
}
