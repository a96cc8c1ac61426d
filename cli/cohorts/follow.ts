import { setTimeout as sleep } from 'node:timers/promises'
import type { CohortEvent, CohortEvents, CohortSummary } from '../../schemas/cohort.ts'
import { CliError } from '../cli-error.ts'
import type { PlatformClient } from '../platform-client.ts'
import { drawer, isDrawable, type Screen } from '../screen.ts'
import { addNames, cohortInWords, eventInWords, type Named, type Retries } from './words.ts'

const LOOK_MS = 400
const EVENTS_A_PAGE = 500
/** How often a reason to wait is told that stays the same. */
const AGAIN_MS = 30_000

export const hasEnded = ({ status }: CohortSummary): boolean =>
  status === 'succeeded' || status === 'failed' || status === 'cancelled'

const pathOf = (taskId: string): string => `/api/v1/tasks/${taskId}/cohort`

export const summaryOf = (client: PlatformClient, taskId: string): Promise<CohortSummary> =>
  client.call<CohortSummary>('GET', pathOf(taskId))

/** Reads the events of a cohort, oldest first, from behind the one that was seen last. */
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

/** Returns why stages were repeated last. */
export const retriesIn = (events: readonly CohortEvent[]): Retries =>
  new Map(
    events.flatMap(({ type, stage_id, data }) =>
      (type === 'stage.retried' || type === 'stage.fell_back') && stage_id !== null
        ? [[stage_id, typeof data['code'] === 'string' ? data['code'] : type] as const]
        : [],
    ),
  )

/** Shows a cohort until it has ended, and returns its summary: a table that moves in a terminal, else its events as lines. */
export async function follow(
  client: PlatformClient,
  taskId: string,
  screen: Screen | undefined,
  againMs = AGAIN_MS,
): Promise<CohortSummary> {
  const draw = screen && isDrawable(screen) ? drawer(screen) : undefined
  const tell = screen && !draw ? teller(screen, againMs) : undefined
  const retries = new Map<string, string>()
  let seen: string | undefined
  for (;;) {
    const cohort = await summaryOf(client, taskId)
    if (screen) {
      const events = await eventsAfter(client, taskId, seen)
      seen = events.at(-1)?.event_id ?? seen
      for (const [stage, why] of retriesIn(events)) retries.set(stage, why)
      draw?.(cohortInWords(cohort, retries))
      tell?.(cohort, events)
    }
    if (hasEnded(cohort)) return cohort
    await sleep(LOOK_MS)
  }
}

/** Returns a function that writes events as lines, and what a cohort waits for: at once, then from time to time. */
function teller(
  screen: Screen,
  againMs: number,
): (cohort: CohortSummary, events: readonly CohortEvent[]) => void {
  const names: Named = { edges: new Map(), nodes: new Map() }
  let told: { reason: string | null; at: number } = { reason: null, at: 0 }
  return (cohort, events) => {
    addNames(names, cohort)
    for (const event of events) screen.write(`${eventInWords(event, names)}\n`)
    const reason = cohort.waiting_for
    const now = Date.now()
    if (reason === told.reason && now - told.at < againMs) return
    told = { reason, at: now }
    if (reason !== null) screen.write(`${new Date(now).toISOString()} waits for ${reason}\n`)
  }
}

/** Makes the error of a cohort that has not succeeded, which ends the command with 1. */
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
  return new CliError(`the cohort has failed${where}: ${error?.message ?? 'unknown'}${handOvers.join('')}`)
}
