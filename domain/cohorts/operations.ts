import type { PlanReason, StageOperation } from '../../schemas/cohort-plan.ts'
import type { SpaceKind } from '../../schemas/cohort-vocabulary.ts'
import type { StageModel } from './costs.ts'
import type { Graph } from './graph.ts'
import type { HandOver } from './hand-overs.ts'
import { isByValue } from './values.ts'

/** The profiles whose servers read a prompt into a file, and go on from such a file (node-runtime/servers/README.md). */
const HANDS_PROMPTS_OVER: readonly string[] = ['llm-transformers', 'llm-llamacpp']

/** Those whose servers take ids of tokens in place of messages. */
const TAKES_TOKENS: readonly string[] = ['llm-transformers']

/** Returns what stages of cohorts can have a model do that a runtime profile serves for a task type. */
export function operationsOf(profileId: string, taskType: string): StageOperation[] {
  return [
    'infer',
    ...(taskType === 'embeddings' ? (['embed'] as const) : []),
    ...(HANDS_PROMPTS_OVER.includes(profileId) ? (['prefill', 'decode'] as const) : []),
  ]
}

/** The operations that make what they hand over in parts, which a session hands over one by one. */
export const STREAMED_OPERATIONS: readonly StageOperation[] = ['embed']

/** The parts of the design that no server has yet. */
export const LATER = 'is the second step of cohorts, which no server has yet'

/** The operations that make and take a representation; a kind without any goes with each operation. */
const OF_KIND: Partial<Record<SpaceKind, { from: StageOperation; to?: StageOperation }>> = {
  embedding: { from: 'embed' },
  kv_cache: { from: 'prefill', to: 'decode' },
}

interface Candidates {
  models: ReadonlyMap<string, Pick<StageModel, 'runtime_profile'>>
  fallbacks: ReadonlyMap<string, readonly Pick<StageModel, 'runtime_profile'>[]>
}

/** Reasons for edges whose stages do not make, or cannot take, what the edge is to hand over. */
export function unmadeKinds(
  { stages, edges }: Pick<Graph, 'stages' | 'edges'>,
  handOvers: ReadonlyMap<string, Pick<HandOver, 'kind'>>,
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
      if (deaf) return [because(`a model of the profile ${deaf.runtime_profile} takes no ids of tokens`)]
      if (operation !== 'infer') return [because(`a stage takes ids of tokens by the operation "infer" only`)]
    }
    if (kind === 'hidden_state') return [because(`handing over hidden states ${LATER}`)]
    return (['from', 'to'] as const).flatMap((side) => {
      const wanted = OF_KIND[kind]?.[side]
      const { stage_id } = edge[side]
      const operation = operations.get(stage_id)
      if (!wanted || !operation || operation === wanted) return []
      const does = side === 'from' ? 'hands over' : 'takes'
      return [
        because(`a stage ${does} ${kind} by the operation "${wanted}", and "${stage_id}" has "${operation}"`),
      ]
    })
  })
}

/** Reasons for stages whose edges hand over what they make in several spaces: they make it once, in one of them. */
export function severalSpaces(
  { edges }: Pick<Graph, 'edges'>,
  handOvers: ReadonlyMap<string, Pick<HandOver, 'kind' | 'source_fingerprint'>>,
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
        message: `edge "${edge_id}": stage "${stage_id}" hands over in the space of edge "${first?.edge_id}", which is another one`,
        stage_id,
        edge_id,
      })),
  )
}
