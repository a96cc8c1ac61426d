import type { PlanReason } from '../../schemas/cohorts/plan.ts'
import type { Graph } from './graph.ts'
import { STREAMED_OPERATIONS } from './stage-operations.ts'

/** Returns reasons for sessions whose producers produce their output all at once, or hand over a value. */
export const impossibleSessions = ({ stages, edges }: Pick<Graph, 'stages' | 'edges'>): PlanReason[] =>
  edges
    .filter(({ mode }) => mode === 'session')
    .flatMap(({ edge_id, from, space }) => {
      const operation = stages.find(({ stage_id }) => stage_id === from.stage_id)?.operation
      if (space && operation !== undefined && STREAMED_OPERATIONS.includes(operation)) return []
      const what =
        space && operation !== undefined
          ? `the operation "${operation}" hands over`
          : 'a value is handed over'
      const able = STREAMED_OPERATIONS.map((one) => `"${one}"`).join(', ')
      return {
        code: 'operation_not_supported' as const,
        message: `edge "${edge_id}": ${what} as a whole, so it has no session; one begins at a stage with the operation ${able} and names a "space"`,
        edge_id,
      }
    })
