import { HUB_TASKS, type HubTask, isHubTask } from '../../../../domain/hub/compatibility.ts'
import { HubError } from '../../../../platform/hub/client.ts'
import { type HubEntry, HubSearch, HubSearchResult } from '../../../../schemas/hub.ts'
import { route } from '../../../http/route.ts'
import { askingHub } from '../../../hub/errors.ts'
import type { Services } from '../../../services.ts'
import { lookAtRepo, presentHubEntry } from './look-at-repo.ts'

const RESULTS = 20
/** The maximum number of hits to examine to find enough matches; each costs a request to the hub. */
const MAX_LOOKED_AT = 100
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

  async handler({ caller: { accountId }, body }, services) {
    // An unknown task does not filter.
    const task = body.task_type !== undefined && isHubTask(body.task_type) ? body.task_type : undefined
    const found = await askingHub(findHits(services, accountId, body.query ?? '', task))
    const hits = found.filter(({ downloads }) => downloads >= (body.min_downloads ?? 0))
    const look = async (repoId: string): Promise<HubEntry | undefined> => {
      const entry = await glance(services, { accountId, repoId, task })
      return entry && isWanted(entry, body) ? entry : undefined
    }
    const results: HubEntry[] = []
    // Hits are examined a few at a time, in order, until there are enough.
    let at = 0
    while (at < hits.length && results.length < RESULTS) {
      const next = hits.slice(at, (at += AT_A_TIME)).map(({ repoId }) => look(repoId))
      results.push(...(await askingHub(Promise.all(next))).filter((entry) => entry !== undefined))
    }
    // Hits are sorted by downloads, so once a hit is below the limit, all later hits are too.
    const areAll = found.length < MAX_LOOKED_AT || hits.length < found.length
    const complete = areAll && at >= hits.length && results.length <= RESULTS
    return { results: results.slice(0, RESULTS), complete }
  },
})

/** Returns the hits for all pipeline tags of the task, most downloaded first. */
async function findHits(
  { hubReader }: Services,
  accountId: string,
  query: string,
  task: HubTask | undefined,
): ReturnType<Services['hubReader']['search']> {
  const limit = MAX_LOOKED_AT
  if (!task) return hubReader.search(accountId, { query, limit })
  const { pipelines } = HUB_TASKS[task]
  const lists = await Promise.all(
    pipelines.map((pipelineTag) => hubReader.search(accountId, { query, pipelineTag, limit })),
  )
  return lists
    .flat()
    .toSorted((a, b) => b.downloads - a.downloads)
    .slice(0, limit)
}

/** Reads a hit's repository. A repository that is deleted or not visible does not affect the others. */
async function glance(
  services: Services,
  { accountId, repoId, task }: { accountId: string; repoId: string; task: HubTask | undefined },
): Promise<HubEntry | undefined> {
  try {
    return presentHubEntry(await lookAtRepo(services, { accountId, repoId }, { task, thorough: false }))
  } catch (err) {
    if (err instanceof HubError && (err.code === 'not_found' || err.code === 'invalid_answer'))
      return undefined
    throw err
  }
}

function isWanted(
  { size_mb, compatibility }: HubEntry,
  { max_size_gb, only_supported }: { max_size_gb?: number; only_supported?: boolean },
): boolean {
  if (only_supported && compatibility.status === 'incompatible') return false
  if (max_size_gb === undefined) return true
  return size_mb !== null && size_mb <= max_size_gb * GB_IN_MB
}
