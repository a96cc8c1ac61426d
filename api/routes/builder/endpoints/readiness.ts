import type { EndpointRow } from '../../../../db/tables/models.ts'
import { countModelNodes } from '../../../../domain/readiness.ts'
import type { ModelReadiness } from '../../../../schemas/endpoint.ts'
import type { Services } from '../../../services.ts'

type Row = Pick<EndpointRow, 'model_key' | 'latency_ms'>

/**
 * Returns the warmth of each endpoint's model, from the last reports of linked nodes that serve this account (`null`
 * for any account). Also estimates the time to a response, from earlier loads and inferences of this or similar models.
 */
export async function readinessOf(
  { estimates, links }: Pick<Services, 'estimates' | 'links'>,
  rows: readonly Row[],
  accountId: string | null,
): Promise<(row: Row) => ModelReadiness> {
  const nodesOf = countModelNodes(links.snapshot(), accountId)
  const takes = await estimates.of([...new Set(rows.map(({ model_key }) => model_key))])
  return ({ model_key, latency_ms }) => {
    const { warm, cached } = nodesOf(model_key)
    const readiness = warm > 0 ? 'warm' : cached > 0 ? 'cached' : 'cold'
    const loadMs = readiness === 'warm' ? 0 : takes(model_key, readiness)
    return {
      readiness,
      warm_nodes: warm,
      cached_nodes: cached,
      estimated_latency_ms: Math.round(loadMs + (latency_ms ?? takes(model_key, 'inference'))),
    }
  }
}
