import { readLoadTimes } from '../../../db/repositories/endpoints.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { countModelNodes } from '../../../domain/readiness.ts'
import type { ModelReadiness } from '../../../schemas/endpoint.ts'
import type { Services } from '../../services.ts'

/** What stands in for inferences and loads that nobody has measured yet. */
const UNMEASURED_MS = { inference: 25, cached: 5_000, cold: 15_000 } as const

type Row = Pick<EndpointRow, 'model_key' | 'latency_ms'>

/**
 * Says of each endpoint how near its model is to answering, by what the linked nodes that serve this account last reported
 * (`null`: any account at all), and how long an answer takes by what loads and inferences have taken so far.
 */
export async function readinessOf(
  { db, links }: Pick<Services, 'db' | 'links'>,
  rows: readonly Row[],
  accountId: string | null,
): Promise<(row: Row) => ModelReadiness> {
  const nodesOf = countModelNodes(links.snapshot(), accountId)
  const measured = new Map(
    (await readLoadTimes(db, [...new Set(rows.map(({ model_key }) => model_key))])).map((row) => [
      `${row.model_key} ${row.start_state}`,
      row.mean_ms,
    ]),
  )
  return ({ model_key, latency_ms }) => {
    const { warm, cached } = nodesOf(model_key)
    const readiness = warm > 0 ? 'warm' : cached > 0 ? 'cached' : 'cold'
    const loadMs =
      readiness === 'warm' ? 0 : (measured.get(`${model_key} ${readiness}`) ?? UNMEASURED_MS[readiness])
    return {
      readiness,
      warm_nodes: warm,
      cached_nodes: cached,
      estimated_latency_ms: Math.round(loadMs + (latency_ms ?? UNMEASURED_MS.inference)),
    }
  }
}
