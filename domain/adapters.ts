import type { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'

/** How a fine-tuned model is served: as an adapter in the server of its base, or with its own merged weights. */
export type ServeAs = 'adapter' | 'merged'

/** The facts that decide whether the adapter of a run can be served in the server of its base. */
export interface AdapterFacts {
  /** The files of the run's model. */
  paths: readonly string[]
  hyperparameters: Record<string, unknown>
  runtime_profile: string
  /** The version that the run started from; undefined if it is not a model of this platform. */
  base: { runtime_profile: string; lifecycle_status: string; paths: readonly string[] } | undefined
}

const CONFIG = 'adapter/adapter_config.json'
/** The files of a merged model that an adapter needs: a run gives a base without a chat template its own. */
const TEMPLATE = /^model\/(?:chat_template\.jinja|tokenizer_config\.json)$/

/** Returns whether a node needs a file of a version to serve its adapter. */
export const isAdapterFile = (path: string): boolean => path.startsWith('adapter/') || TEMPLATE.test(path)

/**
 * Returns why the model of a run can't be served as an adapter of its base; undefined if it can. The reason completes
 * the sentence "It is served merged because ...".
 */
export function adapterProblem(
  { paths, hyperparameters, runtime_profile, base }: AdapterFacts,
  profiles: readonly Pick<RuntimeProfile, 'profile_id' | 'model_kind' | 'adapters'>[],
): string | undefined {
  const kindOf = (id: string) => profiles.find(({ profile_id }) => profile_id === id)?.model_kind
  const kind = kindOf(runtime_profile)
  const limits = profiles.flatMap(({ model_kind, adapters }) =>
    kind !== undefined && model_kind === kind && adapters ? adapters.max_rank : [],
  )
  if (limits.length === 0) return 'no engine of this platform serves adapters of such models'
  if (!paths.includes(CONFIG)) return 'its run trained all weights, and has no adapter'
  if (!base) return 'its base is not a model of this platform'
  if (base.paths.includes(CONFIG)) return 'its base is a fine-tuned model too'
  if (kindOf(base.runtime_profile) !== kind) return 'its base is a model of another kind'
  if (base.lifecycle_status === 'disabled') return 'its base is disabled'
  const rank = Number(hyperparameters['lora_r'] ?? 0)
  // Any node may have to serve it, so the lowest limit counts.
  const limit = Math.min(...limits)
  return rank > limit ? `its rank of ${rank} is above the limit of ${limit}` : undefined
}
