import type { Hearth, RunEvent } from '../../client/index.ts'
import type { EpochLoss, RunProgress, TrainingRun } from '../../schemas/training-run.ts'
import { measure, seconds } from '../amounts.ts'
import { CliError } from '../cli-error.ts'
import { drawer, isDrawable, type Screen, writeLine } from '../screen.ts'
import { curve, type Series } from './curve.ts'

const DRAW_INTERVAL_MS = 100
const CURVE_HEIGHT = 10
const WIDEST = 100
const BAR = 24
const LAST_LINES = 4

/**
 * Follows a run to its end and returns it. Terminals get a live curve; other outputs get plain lines. Without a screen,
 * prints nothing.
 */
export async function watchRun(
  h: Hearth,
  { runId, name }: { runId: string; name: string },
  screen: Screen | undefined,
): Promise<TrainingRun> {
  const view = screen && (isDrawable(screen) ? new Drawing(screen, name) : new EventPrinter(screen))
  for await (const event of h.runs.stream(runId, view ? {} : { types: ['status'] })) {
    view?.take(event)
    if (event.event === 'done') return event.data
  }
  return h.runs.get(runId)
}

/** Returns the status to show. A paused run keeps its earlier `status`, so show `paused` instead. */
export const stateOf = ({ status, paused }: Pick<TrainingRun, 'status' | 'paused'>): string =>
  paused ? 'paused' : status

/** Returns the error for a run that didn't complete; the command then exits with 1. */
export function failureOf(run: TrainingRun): CliError | undefined {
  const { status, error_message: why } = run
  if (status === 'completed') return undefined
  return new CliError(
    status === 'failed' ? `the run failed: ${why ?? 'unknown reason'}` : `the run is ${stateOf(run)}`,
  )
}

/** Prints the events of a run as lines. */
class EventPrinter {
  readonly #screen: Screen

  constructor(screen: Screen) {
    this.#screen = screen
  }

  take(event: RunEvent): void {
    const line = inOneLine(event)
    if (line !== undefined) writeLine(this.#screen, line)
  }
}

function inOneLine(event: RunEvent): string | undefined {
  switch (event.event) {
    case 'log':
      return event.data.message
    case 'metric':
      return `epoch ${event.data.epoch}  ${measuresOf(event.data)
        .map(([name, value]) => `${name} ${measure(value)}`)
        .join('  ')}`
    case 'event':
      return `${event.data.event_type}${event.data.detail === null ? '' : `: ${event.data.detail}`}`
    case 'status':
      // Status changes and pauses also arrive as events, so print only the wait reason.
      return event.data.waiting && !event.data.paused ? `waiting: ${event.data.waiting.reason}` : undefined
    case 'progress':
    case 'done':
      return undefined
  }
}

const measuresOf = ({ epoch: _epoch, ...rest }: EpochLoss): [string, number][] =>
  Object.entries(rest).filter((entry): entry is [string, number] => typeof entry[1] === 'number')

/** Redraws a run in place: its state, its curve and the last lines of its log. */
class Drawing {
  readonly #screen: Screen
  readonly #draw: (text: string) => void
  readonly #name: string
  readonly #measures = new Map<string, Map<number, number>>()
  #state = 'pending'
  #progress: RunProgress | null = null
  #lines: string[] = []
  #lastEpoch = 0
  #timer: NodeJS.Timeout | undefined

  constructor(screen: Screen, name: string) {
    this.#screen = screen
    this.#draw = drawer(screen)
    this.#name = name
  }

  take(event: RunEvent): void {
    if (event.event === 'metric') this.#measured(event.data)
    else if (event.event === 'progress') this.#progress = event.data
    else if (event.event === 'log') this.#lines = [...this.#lines, event.data.message].slice(-LAST_LINES)
    else if (event.event === 'status') this.#state = inOneLine(event) ?? stateOf(event.data)
    else if (event.event === 'done') return this.#end(event.data)
    // Events arrive in bursts, so limit the redraw rate.
    this.#timer ??= setTimeout(() => this.#show(), DRAW_INTERVAL_MS)
  }

  #measured(loss: EpochLoss): void {
    const { epoch } = loss
    this.#lastEpoch = Math.max(this.#lastEpoch, epoch)
    for (const [name, value] of measuresOf(loss)) {
      const points = this.#measures.get(name) ?? new Map<number, number>()
      // An attempt that resumed from a checkpoint reports some epochs again.
      this.#measures.set(name, points.set(epoch, value))
    }
  }

  #end({ status }: TrainingRun): void {
    this.#state = status
    this.#show()
  }

  #show(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const width = Math.min(WIDEST, (this.#screen.columns ?? WIDEST) - 1)
    const series: Series[] = [...this.#measures].map(([name, points]) => ({
      name,
      points: [...points].toSorted(([a], [b]) => a - b),
    }))
    const progress = this.#progress && atLeast(this.#progress, this.#lastEpoch)
    const head = [`${this.#name}: ${this.#state}`, ...(progress ? [bar(progress)] : [])].join('  ')
    const text = [head, ...curve(series, { width, height: CURVE_HEIGHT }), ...this.#lines]
    this.#draw(text.join('\n'))
  }
}

/** Metrics arrive faster than progress, which the gateway sends only a few times a minute. */
function atLeast(progress: RunProgress, epoch: number): RunProgress {
  const { step, of } = progress
  if (of === 0 || epoch <= step || epoch > of) return progress
  return { ...progress, step: epoch, pct: Math.max(progress.pct, Math.floor((100 * epoch) / of)) }
}

function bar({ pct, step, of, eta_s: left }: RunProgress): string {
  const done = Math.round((pct / 100) * BAR)
  const eta = left === null || pct === 100 ? '' : `, about ${seconds(left)} left`
  return `[${'#'.repeat(done)}${'.'.repeat(BAR - done)}] ${pct} %, ${step} of ${of}${eta}`
}
