import { Cron } from 'croner'
import { LRUCache } from 'lru-cache'

/** Sets this minimum number of copies from each time that the expression matches until another entry matches. */
export interface ScheduleEntry {
  /** Five fields: minute, hour, day of the month, month, day of the week. */
  readonly cron: string
  /** A name from the IANA time zone database. */
  readonly timezone: string
  readonly min: number
}

/** Returns the error in an entry; undefined when it is valid. */
export function faultOf({
  cron,
  timezone,
}: ScheduleEntry): { field: 'cron' | 'timezone'; message: string } | undefined {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch {
    return { field: 'timezone', message: 'must be a time zone such as Europe/Berlin' }
  }
  const fields = cron.trim().split(/\s+/)
  if (fields.length !== FIELDS.length) return { field: 'cron', message: FIVE_FIELDS }
  for (const [i, field] of fields.entries()) {
    const alone = FIELDS.map((_, at) => (at === i ? field : '*')).join(' ')
    if (!isCron({ cron: alone, timezone }))
      return { field: 'cron', message: `the ${FIELDS[i]} is not valid: ${field}` }
  }
  if (cronOf({ cron, timezone }).nextRun() === null)
    return { field: 'cron', message: 'never matches a time in the future' }
  return undefined
}

const FIELDS = ['minute', 'hour', 'day of the month', 'month', 'day of the week']
const FIVE_FIELDS =
  'must be five fields such as `0 8 * * 1-5`: minute, hour, day of the month, month, day of the week'

function isCron(entry: Pick<ScheduleEntry, 'cron' | 'timezone'>): boolean {
  try {
    cronOf(entry)
    return true
  } catch {
    return false
  }
}

/**
 * Returns the minimum number of copies at a time, from the entry that matched last; undefined before the first match.
 */
export function scheduledMin(schedule: readonly ScheduleEntry[], now: Date): number | undefined {
  let last: { at: number; min: number } | undefined
  for (const entry of schedule) {
    const at = lastTime(entry, now.getTime())
    if (at !== undefined && (!last || at >= last.at)) last = { at, min: entry.min }
  }
  return last?.min
}

/**
 * The last and next match of each expression. Finding them can take several milliseconds, and every gateway needs them
 * every two seconds.
 */
const times = new LRUCache<string, { last: number | undefined; next: number }>({ max: 10_000 })

/** Returns the last match of an entry; undefined if it has none, or if a newer version of the library rejects it. */
function lastTime({ cron, timezone }: ScheduleEntry, now: number): number | undefined {
  const key = `${timezone} ${cron}`
  const known = times.get(key)
  if (known && now < known.next && now >= (known.last ?? 0)) return known.last
  try {
    const pattern = cronOf({ cron, timezone })
    // The library skips a match in the very second that it is queried for.
    const last = pattern.previousRuns(1, new Date(now + 1_000))[0]?.getTime()
    const next = pattern.nextRun(new Date(now))?.getTime() ?? Number.POSITIVE_INFINITY
    times.set(key, { last, next })
    return last
  } catch {
    return undefined
  }
}

const cronOf = ({ cron, timezone }: Pick<ScheduleEntry, 'cron' | 'timezone'>): Cron =>
  new Cron(cron, { timezone, mode: '5-part' })
