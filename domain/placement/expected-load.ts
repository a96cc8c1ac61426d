import type { NodeModel } from '../../schemas/nodes/node.ts'
import { reserveCapacity } from './gpu-capacity.ts'
import type { PlacementNeed } from './need.ts'
import { type NodeSnapshot, warmthOf } from './node-snapshot.ts'

type LoadNeed = Pick<
  PlacementNeed,
  'model_key' | 'runtime_profile' | 'memory_mb' | 'tensor_parallel' | 'base_key'
>

/** The uses of a model that protect its memory. */
type Use = Pick<NodeModel, 'pinned'> & { in_flight?: number }

/** A model that is still downloading has no memory yet. */
const hasMemory = (model: NodeModel | undefined): model is NodeModel =>
  warmthOf(model) === 'warm' || model?.state === 'loading_model'

/**
 * Returns the snapshot once a node uses a model, which it loads if it hasn't. An adapter also uses its base, whose memory
 * counts once for all its adapters.
 */
export function withUse(snapshot: NodeSnapshot, need: LoadNeed, use: Use): NodeSnapshot {
  const { model_key, base_key, memory_mb } = need
  const find = (key: string) => snapshot.models.find((one) => one.model_key === key)
  const model = find(model_key)
  const isLoaded = hasMemory(model)
  // A loaded model whose base is not loaded has a server of its own.
  if (typeof base_key === 'string' && (!isLoaded || hasMemory(find(base_key)))) {
    const hosted = withUse(snapshot, { ...need, model_key: base_key, base_key: null }, use)
    return replaced(hosted, used(isLoaded ? model : loading(model_key), use))
  }
  if (isLoaded) return replaced(snapshot, used(model, use))
  const { snapshot: after, gpus } = reserveCapacity(snapshot, need)
  return replaced(after, used({ ...loading(model_key), memory_mb, gpus }, use))
}

const loading = (model_key: string): NodeModel => ({
  model_key,
  state: 'loading_model',
  in_flight: 0,
  memory_mb: 0,
})

const used = (model: NodeModel, { pinned, in_flight = 0 }: Use): NodeModel => ({
  ...model,
  ...(in_flight > 0 && warmthOf(model) === 'warm' && { state: 'running' }),
  in_flight: Math.max(model.in_flight, in_flight),
  ...(pinned && { pinned }),
})

function replaced(snapshot: NodeSnapshot, model: NodeModel): NodeSnapshot {
  const others = snapshot.models.filter(({ model_key }) => model_key !== model.model_key)
  return { ...snapshot, models: [...others, model] }
}
