import { setTimeout as sleep } from 'node:timers/promises'
import type { CohortEvents, CohortSummary } from '../../schemas/cohort.ts'
import { CliError } from '../cli-error.ts'
import type { PlatformClient } from '../platform-client.ts'
import { cohortInWords, eventInWords } from './words.ts'

const LOOK_MS = 400
const EVENTS_A_PAGE = 500

export const hasEnded = ({ status }: CohortSummary): boolean =>
  status === 'succeeded' || status === 'failed' || status === 'cancelled'

/** The stream that a cohort is told to while it runs. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): void
}

/** Shows a cohort until it has ended, and returns its summary: a table that moves in a terminal, else its events as lines. */
export async function follow(
  client: PlatformClient,
  taskId: string,
  screen: Screen | undefined,
): Promise<CohortSummary> {
  const path = `/api/v1/tasks/${taskId}/cohort`
  const draw = screen?.isTTY ? drawer(screen) : undefined
  let cursor: string | null = null
  for (;;) {
    const cohort = await client.call<CohortSummary>('GET', path)
    draw?.(cohortInWords(cohort))
    if (screen && !draw) cursor = await tellEvents(cohort, cursor)
    if (hasEnded(cohort)) return cohort
    await sleep(LOOK_MS)
  }

  async function tellEvents(cohort: CohortSummary, after: string | null): Promise<string | null> {
    for (let from = after; ;) {
      const query: string = `limit=${EVENTS_A_PAGE}${from ? `&cursor=${from}` : ''}`
      const page: CohortEvents = await client.call<CohortEvents>('GET', `${path}/events?${query}`)
      for (const event of page.events) screen?.write(`${eventInWords(event, cohort)}\n`)
      from = page.next_cursor
      if (page.events.length < EVENTS_A_PAGE) return from
    }
  }
}

/** Returns a function that writes a text over the one that it wrote before. */
function drawer(screen: Screen): (text: string) => void {
  const ESCAPE = '\u001B['
  let height = 0
  return (text) => {
    // A line that wraps would be two to the cursor.
    const width = Math.max(20, screen.columns ?? 80)
    const lines = text
      .split('\n')
      .map((line) => (line.length < width ? line : `${line.slice(0, width - 2)}…`))
    const back = height > 0 ? `${ESCAPE}${height}A${ESCAPE}0J` : ''
    screen.write(`${back}${lines.join('\n')}\n`)
    height = lines.length
  }
}

/** Makes the error of a cohort that has not succeeded, which ends the command with 1. */
export function failureOf({ status, error }: CohortSummary): CliError | undefined {
  if (status === 'succeeded') return undefined
  return new CliError(
    status === 'cancelled'
      ? 'the cohort was cancelled'
      : `the cohort has failed: ${error?.message ?? 'unknown'}`,
  )
}
