import type { NodeModel } from '../../schemas/nodes/node.ts'
import { reachableMemory } from '../placement/gpu-capacity.ts'
import { OF_OTHERS, type IndexedNode, rejectReason } from '../placement/need.ts'
import { isAsleep, type NodeSnapshot, serves, warmthOf } from '../placement/node-snapshot.ts'
import { pointsOf } from '../placement/placement.ts'
import { isToolKey } from '../tools/catalog.ts'
import type { GraphStage } from './graph.ts'

/** The planner's facts about the model behind a stage. */
export interface StageModel {
  endpoint_id: string
  model_name: string
  model_key: string
  runtime_profile: string
  task_type: string
  memory_mb: number
  tensor_parallel?: number | null
  price_micro: number
  /** Expected milliseconds for one run, a load from disk (`cached_ms`) and a load from the store (`cold_ms`). */
  run_ms: number
  /** True when `run_ms` is the endpoint's own measured mean, not an assumption. */
  is_measured: boolean
  cached_ms: number
  cold_ms: number
}

/** The cost of a stage on each node, by node index; infinite where the stage cannot run, with the reason. */
export interface StageCosts {
  queueMs: Float64Array
  loadMs: Float64Array
  runMs: Float64Array
  isLoaded: Uint8Array
  excluded: Map<string, number>
}

/** A caller's requirements for nodes. */
export interface NodeRequirements {
  accountId: string
  hardware?: 'cpu' | 'gpu' | 'xpu' | 'any'
  nodeAccounts?: 'own' | 'any'
  /**
   * True when a stage uses other accounts' nodes only if none of the account's own can run it; the account's own nodes
   * earn it credits.
   */
  prefersOwn?: boolean
  /** Nodes on which this stage has already been tried. */
  avoid?: ReadonlySet<string>
  now: number
}

/** Reasons for excluding nodes from a stage, as plans word them. */
const NOT_NAMED = 'is not among those that the stage names'
const NAMED_OUT = 'is excluded by the stage'
const OF_ANOTHER = 'belongs to another account'
export const NO_MEMORY = 'has too little memory'
const NO_TOOL = 'cannot run the tool'
const LOAD_FAILED = 'failed to load the model'
/** The assumed time to wake a sleeping model, relative to a load from disk. */
const WAKE_SHARE = 0.1

/** Returns the cost of a stage on every node. */
export function costsOf(
  stage: Pick<GraphStage, 'placement'>,
  model: StageModel,
  nodes: readonly NodeSnapshot[],
  { prefersOwn = false, ...asked }: NodeRequirements,
): StageCosts {
  if (prefersOwn) {
    const ownCosts = costsOf(stage, model, nodes, { ...asked, nodeAccounts: 'own' })
    if (isAble(ownCosts)) return ownCosts
  }
  const { accountId, hardware, nodeAccounts, avoid, now } = asked
  const { placement = {} } = stage
  const wanted = placement.hardware ?? (hardware === 'any' ? undefined : hardware)
  const named = placement.node_ids && new Set(placement.node_ids)
  const excludedNodes = new Set([...(placement.not_node_ids ?? []), ...(avoid ?? [])])
  const need = {
    model_key: model.model_key,
    account_id: accountId,
    runtime_profile: model.runtime_profile,
    memory_mb: model.memory_mb,
    tensor_parallel: model.tensor_parallel ?? null,
    ...(wanted && { hardware: wanted }),
    now,
  }
  const costs: StageCosts = {
    queueMs: new Float64Array(nodes.length),
    loadMs: new Float64Array(nodes.length),
    runMs: new Float64Array(nodes.length).fill(model.run_ms),
    isLoaded: new Uint8Array(nodes.length),
    excluded: new Map(),
  }
  for (const [i, snapshot] of nodes.entries()) {
    const node = placedNode(snapshot)
    const held = node.models.get(model.model_key)
    const reason =
      (!serves(snapshot, accountId) && OF_OTHERS) ||
      (nodeAccounts === 'own' && snapshot.account_id !== accountId && OF_ANOTHER) ||
      (named && !named.has(snapshot.node_id) && NOT_NAMED) ||
      (excludedNodes.has(snapshot.node_id) && NAMED_OUT) ||
      rejectReason(node, need) ||
      // Nodes don't load tools: a node that can sandbox a tool reports it as warm.
      (isToolKey(model.model_key) && warmthOf(held) !== 'warm' && NO_TOOL)
    if (reason) {
      costs.queueMs[i] = Infinity
      const words = inClasses(reason)
      costs.excluded.set(words, (costs.excluded.get(words) ?? 0) + 1)
      continue
    }
    const warmth = warmthOf(held)
    costs.queueMs[i] = (held?.in_flight ?? 0) * model.run_ms
    costs.isLoaded[i] = warmth === 'warm' ? 1 : 0
    costs.loadMs[i] = loadMsOf(model, held)
  }
  return costs
}

function loadMsOf(
  { cached_ms, cold_ms }: Pick<StageModel, 'cached_ms' | 'cold_ms'>,
  held: NodeModel | undefined,
): number {
  if (isAsleep(held)) return cached_ms * WAKE_SHARE
  const warmth = warmthOf(held)
  return warmth === 'warm' ? 0 : warmth === 'cached' ? cached_ms : cold_ms
}

/** Returns whether any node can run a stage. */
export const isAble = ({ queueMs }: StageCosts): boolean => queueMs.some((ms) => ms < Infinity)

/** Node data that placement reads, shared by all stages of a graph. */
const placedNodes = new WeakMap<NodeSnapshot, IndexedNode>()

function placedNode(snapshot: NodeSnapshot): IndexedNode {
  const known = placedNodes.get(snapshot)
  if (known) return known
  const models = new Map(snapshot.models.map((model) => [model.model_key, model]))
  const reach = reachableMemory(snapshot, models.values())
  const node = { snapshot, scope: '', models, reach, pending: 0, points: pointsOf(snapshot, 0) }
  placedNodes.set(snapshot, node)
  return node
}

/** Reasons that name sizes or errors differ from node to node, so a plan counts them under one shared reason. */
function inClasses(reason: string): string {
  if (/ MB | GB /.test(reason)) return NO_MEMORY
  return reason.startsWith('failed to load it') ? LOAD_FAILED : reason
}
