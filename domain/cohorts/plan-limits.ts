import type { PlanReason } from '../../schemas/cohorts/plan.ts'
import type { StageModel } from './costs.ts'
import type { Graph } from './graph.ts'
import { STAGE_TIMEOUT } from './stages/timeout.ts'

/** Micro-credits per credit. */
export const MICRO = 1_000_000

interface PricedGraph {
  graph: Pick<Graph, 'stages' | 'constraints'>
  models: ReadonlyMap<string, StageModel>
  fallbacks?: ReadonlyMap<string, readonly Pick<StageModel, 'price_micro'>[]> | undefined
}

/** Returns reasons to reject a run that would exceed its deadline or cost limit. */
export function overLimits(priced: PricedGraph, makespanMs: number): PlanReason[] {
  const { deadline_s, max_cost_credits } = priced.graph.constraints
  const reasons: PlanReason[] = []
  if (makespanMs > 1_000 * deadline_s) {
    const message = `the run would take about ${Math.ceil(makespanMs / 1_000)} s, but the deadline is ${deadline_s} s`
    reasons.push({ code: 'over_deadline', message })
  }
  const [cost, most] = [costMicro(priced) / MICRO, mostMicro(priced) / MICRO]
  if (max_cost_credits !== undefined && most > max_cost_credits) {
    const verb =
      most > cost ? `would cost ${cost} credits, or ${most} with its fallbacks` : `would cost ${cost} credits`
    const message = `the run ${verb}; the limit is ${max_cost_credits}`
    reasons.push({ code: 'over_budget', message })
  }
  return reasons
}

/**
 * Warns about stages whose `timeout_s` is below the average duration of their endpoint's calls. This isn't a reason to
 * reject a run: the call may be shorter, or a fallback may be meant to take over.
 */
export const shortTimeouts = ({ graph, models }: PricedGraph): PlanReason[] =>
  graph.stages.flatMap(({ stage_id, timeout_s }) => {
    const model = models.get(stage_id)
    if (!model?.is_measured || model.run_ms <= 1_000 * timeout_s) return []
    const mean = (model.run_ms / 1_000).toFixed(1)
    const message = `stage "${stage_id}" has a timeout_s of ${timeout_s} s, but calls to its endpoint take ${mean} s on average: it may fail with "${STAGE_TIMEOUT}"`
    return [{ code: 'over_deadline', message, stage_id }]
  })

/** Returns the cost of a run in which no stage falls back. */
export const costMicro = ({ graph, models }: PricedGraph): number =>
  graph.stages.reduce((sum, { stage_id }) => sum + (models.get(stage_id)?.price_micro ?? 0), 0)

/** Returns the highest cost of a run: the sum of the prices reserved for each stage. */
const mostMicro = ({ graph, models, fallbacks }: PricedGraph): number =>
  graph.stages.reduce((sum, { stage_id }) => {
    const all = [models.get(stage_id), ...(fallbacks?.get(stage_id) ?? [])]
    return sum + Math.max(...all.map((model) => model?.price_micro ?? 0))
  }, 0)
