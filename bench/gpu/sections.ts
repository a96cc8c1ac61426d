import { setTimeout as sleep } from 'node:timers/promises'
import type { Row, Side } from './table.ts'

const CLEANUP_MS = 5_000
const MAX_REASON = 200
const LABELS: Readonly<Record<Side, string>> = { ours: 'Hearth', reference: 'reference' }

/** One measurement of one side, with its own time limit. */
export interface Section {
  /** The name for `--only`; both sides of a comparison have the same one. */
  name: string
  side: Side
  title: string
  limitS: number
  /** The rows that it fills in on its side. */
  rows: readonly Row[]
  /** Its processes must not outlive the signal. */
  run: (signal: AbortSignal) => Promise<void>
}

/** How a section ended. */
export interface Outcome {
  section: string
  side: Side
  state: 'measured' | 'missing' | 'failed'
  seconds: number
  reason?: string
}

/** Thrown by a section if this machine lacks something that it needs. This is no failure. */
export class MissingError extends Error {}

export interface SectionsOptions {
  /** Multiplies the time limit of each section. */
  patience: number
  /** The time by which all sections have ended, as `performance.now()` counts. */
  endsAt: number
  /** Kills the processes of a section that failed or took too long. */
  killAll: () => Promise<void>
  log: (line: string) => void
}

/** Runs sections one after the other. A section that fails or overruns leaves its reason in its rows. */
export async function runSections(
  sections: readonly Section[],
  options: SectionsOptions,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const section of sections) outcomes.push(await runSection(section, options))
  return outcomes
}

async function runSection(
  section: Section,
  { patience, endsAt, killAll, log }: SectionsOptions,
): Promise<Outcome> {
  const began = performance.now()
  const limitMs = Math.min(1_000 * patience * section.limitS, endsAt - began)
  log(`${section.title} (at most ${Math.max(0, limitMs / 1_000).toFixed(0)} s)`)
  const stopping = new AbortController()
  const overrun = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => {
      overrun.reject(new Error(limitMs > 0 ? `not finished after ${seconds(limitMs)} s` : 'no time was left'))
    },
    Math.max(0, limitMs),
  )
  const work = limitMs > 0 ? section.run(stopping.signal) : overrun.promise
  const { name, side } = section
  try {
    await Promise.race([work, overrun.promise])
    const took = seconds(performance.now() - began)
    log(`  done after ${took} s`)
    return { section: name, side, state: 'measured', seconds: took }
  } catch (err) {
    const reason = reasonOf(err)
    for (const row of section.rows) if (!row[side]) row.notes.push(`${LABELS[side]}: ${reason}`)
    log(`  ${reason}`)
    stopping.abort()
    await Promise.race([Promise.allSettled([killAll(), work]), sleep(CLEANUP_MS)])
    const state = err instanceof MissingError ? 'missing' : 'failed'
    return { section: name, side, state, seconds: seconds(performance.now() - began), reason }
  } finally {
    clearTimeout(timer)
  }
}

const seconds = (ms: number): number => Math.round(ms / 100) / 10

function reasonOf(err: unknown): string {
  const lines = (err instanceof Error ? err.message : String(err)).trim().split('\n')
  // A failed program's message begins with its command line and ends with its error.
  return (lines.at(-1) ?? '').slice(0, MAX_REASON)
}
