import type { Transaction } from 'kysely'
import pRetry from 'p-retry'
import * as adapterRepository from '../../../../db/repositories/endpoints/adapters.ts'
import type { VersionFacts } from '../../../../db/repositories/models/version-facts.ts'
import type { Database } from '../../../../db/tables.ts'
import { adapterProblem, type ServeAs } from '../../../../domain/adapters.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { isLoading, type NodeSnapshot, warmthOf } from '../../../../domain/placement/node-snapshot.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { RegisterForInference } from '../../../../schemas/endpoint.ts'
import type { NodeModel } from '../../../../schemas/nodes/node.ts'
import type { Services } from '../../../services.ts'
import { orderEviction } from '../../orchestrator/nodes/order-node.ts'

/** The columns of an endpoint that say how its model is served. */
interface ServedAs {
  base_version_id: string | null
  merged_because: string | null
}

const EVICTION_RETRIES = { retries: 5, minTimeout: 1_000, factor: 2 } as const

const OF_BASE =
  'an adapter has no server of its own: set serving on an endpoint of its base, or serve_as to merged'

/** Rejects settings for the server of an adapter, because the server is that of its base. */
export function assertOwnServer({ base_version_id }: Pick<ServedAs, 'base_version_id'>): void {
  if (base_version_id !== null) throw invalid(['body', 'serving'], OF_BASE, 'serving')
}

/**
 * Decides how an endpoint of a run's model is served: as an adapter where its base and the engines allow that. All
 * endpoints of a version are served alike, because a node loads the version once; the caller has locked it.
 */
export async function servedAs(
  trx: Transaction<Database>,
  { profiles }: Pick<Catalog, 'profiles'>,
  version: VersionFacts,
  { serve_as: wanted, serving }: { [K in 'serve_as' | 'serving']: RegisterForInference[K] | undefined },
): Promise<ServedAs> {
  if (serving && wanted === 'adapter') throw invalid(['body', 'serving'], OF_BASE, 'serving')
  const sibling = await adapterRepository.findSibling(trx, version.id)
  if (sibling) {
    const { name, base_version_id, merged_because } = sibling
    const is: ServeAs = base_version_id === null ? 'merged' : 'adapter'
    // An adapter that could not be served as one falls back here, as it did for the first endpoint.
    if (wanted !== undefined && wanted !== is && merged_because === null) {
      throw new ApiError(
        'conflict',
        `the endpoint ${name} of the same version has serve_as ${is}; use the same, or delete that endpoint first`,
      )
    }
    if (serving) assertOwnServer(sibling)
    return { base_version_id, merged_because }
  }
  if (wanted === 'merged') return { base_version_id: null, merged_because: null }
  if (serving) return { base_version_id: null, merged_because: 'it has settings for a server of its own' }
  const facts = await adapterRepository.findAdapterFacts(trx, version)
  const problem = adapterProblem(facts, profiles)
  // Only language models have adapters, so the reason would only puzzle the owners of other models.
  const isExplained = wanted !== undefined || facts.paths.some((path) => path.startsWith('adapter/'))
  if (problem !== undefined) return { base_version_id: null, merged_because: isExplained ? problem : null }
  return { base_version_id: version.base_model_version_id, merged_because: null }
}

/**
 * Unloads the merged weights of a model that is now an adapter: its test may have loaded them before the endpoint existed.
 * A copy in use is tried again for half a minute; one that stays leaves when it is idle for too long or its memory is needed.
 */
export async function unloadMerged({ links }: Pick<Services, 'links'>, modelKey: string): Promise<void> {
  // An adapter uses the memory of its base.
  const merged = () =>
    links
      .snapshot()
      .filter(({ models }) =>
        models.some((one) => one.model_key === modelKey && isOnItsWay(one) && one.memory_mb > 0),
      )
  const evict = async ({ node_id: nodeId, account_id: accountId }: NodeSnapshot) => {
    const reason = await orderEviction({ links }, nodeId, { accountId, modelKey })
    if (reason !== undefined) throw new Error(reason)
  }
  await Promise.all(
    merged().map(({ node_id }) =>
      pRetry(async () => {
        const node = merged().find((one) => one.node_id === node_id)
        if (node) await evict(node)
      }, EVICTION_RETRIES).catch(() => {}),
    ),
  )
}

const isOnItsWay = (model: NodeModel): boolean => warmthOf(model) === 'warm' || isLoading(model)
