import { HUB_TASKS, isHubTask } from '../../../domain/hub-compatibility.ts'
import { HubError } from '../../../platform/hub.ts'
import { type HubEntry, HubSearch, HubSearchResult } from '../../../schemas/hub.ts'
import { route } from '../../http/route.ts'
import { askingHub } from '../../hub-errors.ts'
import { lookAtRepo, presentHubEntry } from './look-at-repo.ts'

const RESULTS = 20
const AT_A_TIME = 5
const GB_IN_MB = 1024

export const searchHub = route({
  operationId: 'searchHub',
  summary: 'Search the model hub, and see what can be served here',
  method: 'POST',
  path: '/models/hf/search',
  auth: 'api-key',
  role: 'viewer',
  body: HubSearch,
  success: { status: 200, schema: HubSearchResult },
  errors: ['rate_limited', 'unavailable'],

  async handler({ body }, services) {
    // What does not map to the vocabulary filters nothing (contract 4.4).
    const task = body.task_type !== undefined && isHubTask(body.task_type) ? body.task_type : undefined
    const found = await askingHub(
      services.hub.search({
        query: body.query ?? '',
        pipelineTag: task && HUB_TASKS[task].pipeline,
        limit: RESULTS,
      }),
    )
    const wanted = found.filter(({ downloads }) => downloads >= (body.min_downloads ?? 0))
    const results = await inTurns(wanted, async ({ repoId }) => {
      try {
        return presentHubEntry(await lookAtRepo(services, repoId, { task, thorough: false }))
      } catch (err) {
        // One repository that is gone, or not to be seen, keeps none of the others from being told.
        if (err instanceof HubError && (err.code === 'not_found' || err.code === 'invalid_answer'))
          return undefined
        throw err
      }
    })
    return {
      results: results.filter((entry) => entry !== undefined).filter((entry) => isWanted(entry, body)),
    }
  },
})

function isWanted(
  { size_mb, compatibility }: HubEntry,
  { max_size_gb, only_supported }: { max_size_gb?: number; only_supported?: boolean },
): boolean {
  if (only_supported && compatibility.status === 'incompatible') return false
  return max_size_gb === undefined || (size_mb ?? 0) <= max_size_gb * GB_IN_MB
}

/** A few at a time: a hub counts requests. */
async function inTurns<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let i = 0; i < items.length; i += AT_A_TIME) {
    results.push(...(await askingHub(Promise.all(items.slice(i, i + AT_A_TIME).map(each)))))
  }
  return results
}
