import { Cron } from 'croner'

/** From each time of the expression on, at least this many copies are wanted, until another entry has its time. */
export interface ScheduleEntry {
  /** Five fields: minute, hour, day of the month, month, day of the week. */
  readonly cron: string
  /** A name of the IANA time zone database. */
  readonly timezone: string
  readonly min: number
}

/** Returns what is wrong with an entry; undefined when nothing is. */
export function faultOf({
  cron,
  timezone,
}: ScheduleEntry): { field: 'cron' | 'timezone'; message: string } | undefined {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch {
    return { field: 'timezone', message: 'must be a time zone such as Europe/Berlin' }
  }
  try {
    if (cronOf({ cron, timezone }).nextRun() === null)
      return { field: 'cron', message: 'has no time in the future' }
    return undefined
  } catch {
    return {
      field: 'cron',
      message: 'must be five fields such as `0 8 * * 1-5`: minute, hour, day, month, day of the week',
    }
  }
}

/** Returns the least number of copies at a time: that of the entry whose time was last, `min` before the first. */
export function scheduledMin(schedule: readonly ScheduleEntry[], min: number, now: Date): number {
  let last = { at: Number.NEGATIVE_INFINITY, min }
  for (const entry of schedule) {
    const [at] = cronOf(entry).previousRuns(1, now)
    if (at && at.getTime() >= last.at) last = { at: at.getTime(), min: entry.min }
  }
  return last.min
}

const cronOf = ({ cron, timezone }: Pick<ScheduleEntry, 'cron' | 'timezone'>): Cron =>
  new Cron(cron, { timezone, mode: '5-part' })
