import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { openDatabase } from '../db/database.ts'
import * as nodeReportRepository from '../db/repositories/nodes/reports.ts'
import { withProgress } from '../platform/async/with-progress.ts'
import { reasonOf } from '../platform/reason.ts'
import { QUEUES } from '../workflows/contract/policy.ts'
import { StartError } from './options.ts'
import type { Child } from './processes/child.ts'
import { queueIsPolled, type TemporalService } from './temporal/server.ts'

const TIMEOUT_MS = 180_000
/** The number of exits during startup after which we give up on a process. */
const HOPELESS = 5
const REACHABLE_TIMEOUT_MS = 10_000

interface ReadinessOptions {
  /** The address of the API on this machine. */
  localBase: string
  /** The public address of the API. */
  baseUrl: string
  temporal: TemporalService
  databaseUrl: string
  children: readonly Child[]
  logs: string
  say: (line: string) => void
  signal: AbortSignal | undefined
}

/** Waits until the API is healthy, a worker polls for workflows and a node has reported over its link. */
export async function waitUntilServing({
  localBase,
  baseUrl,
  temporal,
  databaseUrl,
  children,
  logs,
  say,
  signal,
}: ReadinessOptions): Promise<void> {
  const since = new Date()
  const deadline = Date.now() + TIMEOUT_MS
  const waitFor = (what: string, check: () => Promise<boolean>) =>
    withProgress(`waiting for ${what}`, say, () => until(what, check))
  say('starting the API, the workers and a node')
  await waitFor('the API', () => isHealthy(localBase))
  await reachable(baseUrl)
  await waitFor('the workflow worker', () => queueIsPolled(temporal, QUEUES.control))
  await using db = openDatabase(databaseUrl, { max: 1 })
  await waitFor('the node', () => nodeReportRepository.hasReportsSince(db, since))

  async function until(what: string, check: () => Promise<boolean>): Promise<void> {
    while (!(await check().catch(() => false))) {
      signal?.throwIfAborted()
      const refused = children.find((child) => child.refused)?.name
      if (refused) {
        throw new StartError(`${refused} cannot run with these settings; see ${logs}/${refused}.log.`)
      }
      const broken = children.find(({ failures }) => failures >= HOPELESS)?.name
      if (broken) throw new StartError(`${broken} exited repeatedly; see ${logs}/${broken}.log.`)
      if (Date.now() > deadline) throw new StartError(`${what} did not come up; see the files in ${logs}.`)
      await sleep(50)
    }
  }
}

/** Checks that the API can be reached at the public address, because the node uses it. */
async function reachable(baseUrl: string): Promise<void> {
  let why: unknown
  for (const deadline = Date.now() + REACHABLE_TIMEOUT_MS; Date.now() < deadline; await sleep(200)) {
    try {
      if (await isHealthy(baseUrl)) return
    } catch (err) {
      why = err
    }
  }
  const reason = why === undefined ? 'another server is responding there' : reasonOf(why)
  throw new StartError(`HEARTH_BASE_URL: the API cannot be reached at ${baseUrl} from here (${reason}).`)
}

async function isHealthy(baseUrl: string): Promise<boolean> {
  const answer = await request(`${baseUrl}/api/builder/v1/health`, { headersTimeout: 2000 })
  await answer.body.dump()
  return answer.statusCode === 200
}
