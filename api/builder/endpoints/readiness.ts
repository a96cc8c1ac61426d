import { readLoadTimes } from '../../../db/repositories/endpoints.ts'
import { countModelNodes } from '../../../domain/readiness.ts'
import type { ModelReadiness } from '../../../schemas/endpoint.ts'
import type { Services } from '../../services.ts'

/** Of a warm model over the link (bench/warm), and what stands in for a load that nobody has measured yet. */
const WARM_MS = 25
const UNMEASURED_MS = { cached: 5_000, cold: 15_000 } as const

/** Says of each model how near it is to answering, by what the linked nodes last reported. */
export async function readinessOf(
  { db, links }: Pick<Services, 'db' | 'links'>,
  modelKeys: readonly string[],
): Promise<(modelKey: string) => ModelReadiness> {
  const nodesOf = countModelNodes(links.snapshot())
  const measured = new Map(
    (await readLoadTimes(db, [...new Set(modelKeys)])).map((row) => [
      `${row.model_key} ${row.start_state}`,
      row.mean_ms,
    ]),
  )
  return (modelKey) => {
    const { warm, cached } = nodesOf(modelKey)
    const readiness = warm > 0 ? 'warm' : cached > 0 ? 'cached' : 'cold'
    const loadMs =
      readiness === 'warm' ? 0 : (measured.get(`${modelKey} ${readiness}`) ?? UNMEASURED_MS[readiness])
    return {
      readiness,
      warm_nodes: warm,
      cached_nodes: cached,
      estimated_latency_ms: Math.round(loadMs + WARM_MS),
    }
  }
}
