import type { PlanReason, StageOperation } from '../../schemas/cohorts/plan.ts'
import type { SpaceKind } from '../../schemas/cohorts/vocabulary.ts'
import type { StageModel } from './costs.ts'
import type { Graph } from './graph.ts'
import type { Handoff } from './handoffs.ts'
import { isByValue } from './values.ts'

/**
 * Profiles whose servers can write a prompt's cache to a file and continue from one (node-runtime/servers/README.md).
 */
const HANDS_PROMPTS_OVER: readonly string[] = ['llm-transformers', 'llm-llamacpp']

/** Profiles whose servers accept token ids instead of messages. */
const TAKES_TOKENS: readonly string[] = ['llm-transformers']

/** Returns the operations that cohort stages can run on a model, by its runtime profile and task type. */
export function operationsOf(profileId: string, taskType: string): StageOperation[] {
  return [
    'infer',
    ...(taskType === 'embeddings' ? (['embed'] as const) : []),
    ...(HANDS_PROMPTS_OVER.includes(profileId) ? (['prefill', 'decode'] as const) : []),
  ]
}

/** Operations that produce their output in parts, which a session hands over one by one. */
export const STREAMED_OPERATIONS: readonly StageOperation[] = ['embed']

/** Suffix for parts of the design that no server supports yet. */
export const LATER = 'is planned for a later version of cohorts and not supported by any server yet'

/** The operations that produce and consume a representation. A kind without an entry works with every operation. */
const OF_KIND: Partial<Record<SpaceKind, { from: StageOperation; to?: StageOperation }>> = {
  embedding: { from: 'embed' },
  kv_cache: { from: 'prefill', to: 'decode' },
}

interface Candidates {
  models: ReadonlyMap<string, Pick<StageModel, 'runtime_profile'>>
  fallbacks: ReadonlyMap<string, readonly Pick<StageModel, 'runtime_profile'>[]>
}

/** Returns reasons to reject edges whose stages cannot produce or consume the representation that is handed over. */
export function unmadeKinds(
  { stages, edges }: Pick<Graph, 'stages' | 'edges'>,
  handOvers: ReadonlyMap<string, Pick<Handoff, 'kind'>>,
  { models, fallbacks }: Candidates,
): PlanReason[] {
  const operations = new Map(stages.map(({ stage_id, operation }) => [stage_id, operation]))
  return edges.flatMap((edge) => {
    const { edge_id } = edge
    const kind = handOvers.get(edge_id)?.kind ?? 'json'
    const because = (why: string): PlanReason => ({
      code: 'operation_not_supported',
      message: `edge "${edge_id}": ${why}`,
      edge_id,
    })
    if (kind === 'tokens') {
      const { stage_id } = edge.to
      const all = [models.get(stage_id) ?? [], fallbacks.get(stage_id) ?? []].flat()
      const deaf = all.find(({ runtime_profile }) => !TAKES_TOKENS.includes(runtime_profile))
      const operation = operations.get(stage_id)
      if (deaf) return [because(`a model of the profile ${deaf.runtime_profile} does not accept token ids`)]
      if (operation !== 'infer') return [because(`a stage accepts token ids only with the operation "infer"`)]
    }
    if (kind === 'hidden_state') return [because(`handing over hidden states ${LATER}`)]
    return (['from', 'to'] as const).flatMap((side) => {
      const wanted = OF_KIND[kind]?.[side]
      const { stage_id } = edge[side]
      const operation = operations.get(stage_id)
      if (!wanted || !operation || operation === wanted) return []
      const does = side === 'from' ? 'hands over' : 'takes'
      return [
        because(
          `a stage ${does} ${kind} with the operation "${wanted}", but "${stage_id}" has "${operation}"`,
        ),
      ]
    })
  })
}

/** Returns reasons to reject stages with edges in different spaces: a stage produces its output once, in one space. */
export function severalSpaces(
  { edges }: Pick<Graph, 'edges'>,
  handOvers: ReadonlyMap<string, Pick<Handoff, 'kind' | 'source_fingerprint'>>,
): PlanReason[] {
  const made = edges.flatMap(({ edge_id, from }) => {
    const handOver = handOvers.get(edge_id)
    return handOver && !isByValue(handOver.kind)
      ? [{ edge_id, stage_id: from.stage_id, space: handOver.source_fingerprint }]
      : []
  })
  return [...Map.groupBy(made, ({ stage_id }) => stage_id)].flatMap(([stage_id, [first, ...others]]) =>
    others
      .filter(({ space }) => space !== first?.space)
      .map(({ edge_id }) => ({
        code: 'space_mismatch' as const,
        message: `edge "${edge_id}": stage "${stage_id}" hands over in the space of edge "${first?.edge_id}", which is a different space`,
        stage_id,
        edge_id,
      })),
  )
}
