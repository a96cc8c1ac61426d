import { setTimeout as sleep } from 'node:timers/promises'
import type { CohortEvent, CohortEvents, CohortSummary } from '../../schemas/cohorts/cohort.ts'
import { CliError, PassingError } from '../cli-error.ts'
import type { PlatformClient } from '../platform-client.ts'
import { drawer, isDrawable, type Screen, writeLine } from '../screen.ts'
import { addNames, formatCohort, formatEvent, type DisplayNames, type Retries } from './formatters.ts'

const POLL_INTERVAL_MS = 400
const EVENTS_A_PAGE = 500
/** Pause before an unchanged wait reason is printed again. */
const REMINDER_INTERVAL_MS = 30_000
/** How long to retry while the platform doesn't answer. */
const TIMEOUT_MS = 60_000

export const hasEnded = ({ status }: CohortSummary): boolean =>
  status === 'succeeded' || status === 'failed' || status === 'cancelled'

const pathOf = (taskId: string): string => `/api/v1/tasks/${taskId}/cohort`

export const summaryOf = (client: PlatformClient, taskId: string): Promise<CohortSummary> =>
  client.call<CohortSummary>('GET', pathOf(taskId))

/** Reads the events of a cohort after `seen`, oldest first. */
export async function eventsAfter(
  client: PlatformClient,
  taskId: string,
  seen: string | undefined,
): Promise<CohortEvent[]> {
  const events: CohortEvent[] = []
  for (;;) {
    const cursor = events.at(-1)?.event_id ?? seen
    const query = `limit=${EVENTS_A_PAGE}${cursor === undefined ? '' : `&cursor=${cursor}`}`
    const page = await client.call<CohortEvents>('GET', `${pathOf(taskId)}/events?${query}`)
    events.push(...page.events)
    if (page.events.length < EVENTS_A_PAGE) return events
  }
}

/** Returns the reason for the latest retry of each stage. */
export const retriesIn = (events: readonly CohortEvent[]): Retries =>
  new Map(
    events.flatMap(({ type, stage_id, data }) =>
      (type === 'stage.retried' || type === 'stage.fell_back') && stage_id !== null
        ? [[stage_id, typeof data['code'] === 'string' ? data['code'] : type] as const]
        : [],
    ),
  )

/**
 * Follows a cohort until it ends, and returns its summary. Terminals get a live table; other outputs get one line per
 * event.
 */
export async function follow(
  client: PlatformClient,
  taskId: string,
  screen: Screen | undefined,
  { againMs = REMINDER_INTERVAL_MS, patienceMs = TIMEOUT_MS }: FollowTimes = {},
): Promise<CohortSummary> {
  const view = screen && (isDrawable(screen) ? drawing(screen) : eventView(screen, againMs))
  const retries = new Map<string, string>()
  let seen: string | undefined
  for (;;) {
    const { cohort, events } = await retryUnreachable(
      async () => {
        const cohort = await summaryOf(client, taskId)
        return { cohort, events: view ? await eventsAfter(client, taskId, seen) : [] }
      },
      patienceMs,
      view?.remark,
    )
    seen = events.at(-1)?.event_id ?? seen
    for (const [stage, why] of retriesIn(events)) retries.set(stage, why)
    view?.show(cohort, events, retries)
    if (hasEnded(cohort)) return cohort
    await sleep(POLL_INTERVAL_MS)
  }
}

interface FollowTimes {
  againMs?: number
  patienceMs?: number
}

/** Polls the platform. If it doesn't answer, prints a remark and retries for `patienceMs`. */
async function retryUnreachable<T>(
  look: () => Promise<T>,
  patienceMs: number,
  remark: ((words: string) => void) | undefined,
): Promise<T> {
  let lostAt: number | undefined
  for (;;) {
    try {
      const seen = await look()
      if (lostAt !== undefined) remark?.('the platform is reachable again')
      return seen
    } catch (err) {
      if (!(err instanceof PassingError)) throw err
      if (lostAt === undefined)
        remark?.(`the platform does not answer; retrying for ${Math.round(patienceMs / 1_000)} s`)
      lostAt ??= Date.now()
      if (Date.now() - lostAt >= patienceMs) throw err
    }
    await sleep(POLL_INTERVAL_MS)
  }
}

interface View {
  show: (cohort: CohortSummary, events: readonly CohortEvent[], retries: Retries) => void
  /** Prints a status line about the watcher (not an event). */
  remark: (words: string) => void
}

function drawing(screen: Screen): View {
  const draw = drawer(screen)
  let last = ''
  return {
    show: (cohort, _events, retries) => {
      last = formatCohort(cohort, retries)
      draw(last)
    },
    remark: (words) => draw([last, words].filter(Boolean).join('\n')),
  }
}

/** Prints one line per event. Prints what a cohort is waiting for immediately, then every `againMs`. */
function eventView(screen: Screen, againMs: number): View {
  const names: DisplayNames = { edges: new Map(), nodes: new Map() }
  let lastReport: { reason: string | null; at: number } = { reason: null, at: 0 }
  const remark = (words: string) => writeLine(screen, `${new Date().toISOString()} ${words}`)
  return {
    remark,
    show: (cohort, events) => {
      addNames(names, cohort)
      for (const event of events) writeLine(screen, formatEvent(event, names))
      const reason = cohort.waiting_for
      const now = Date.now()
      if (reason === lastReport.reason && now - lastReport.at < againMs) return
      lastReport = { reason, at: now }
      if (reason !== null) remark(`waits for ${reason}`)
    },
  }
}

/** Returns the error for a cohort that didn't succeed; the command then exits with 1. */
export function failureOf(cohort: CohortSummary): CliError | undefined {
  const { status, error, edges } = cohort
  if (status === 'succeeded') return undefined
  if (status === 'cancelled') return new CliError('the cohort was cancelled')
  const stage = error?.stage_id
  const isTold = stage === undefined || error?.message.includes(`"${stage}"`)
  const where = isTold ? '' : ` at stage "${stage}"`
  const broken = edges.filter(
    ({ to, failure }) => to.stage_id === stage && failure && failure !== 'cancelled',
  )
  const handOvers = broken.map(({ name, failure }) => `; the hand-over "${name}" failed: ${failure}`)
  return new CliError(`the cohort failed${where}: ${error?.message ?? 'unknown'}${handOvers.join('')}`)
}
