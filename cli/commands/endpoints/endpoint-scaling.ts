import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Scaling, SetScaling } from '../../../schemas/scaling.ts'
import { countOrDefault, wholeNumber } from '../../arguments.ts'
import { asAccount } from '../../as-account.ts'
import { print, table } from '../../print.ts'

type Schedule = Scaling['schedule']

interface ScaleOptions {
  min?: number
  max?: number
  targetInFlight?: number | 'default'
  targetWaitMs?: number
  idleTimeout?: number | 'default'
  /** False if `--no-schedule` is given. */
  schedule?: Schedule | false
}

/** Shows and sets the number of model copies of an endpoint. */
export function scaleCommand(endpoints: Command): void {
  endpoints
    .command('scale <endpoint>')
    .description(
      'set how an endpoint scales the copies of its model; without options, show the copies and why there are that many',
    )
    .option('--min <n>', 'copies that are always loaded; with 0, the first request loads one', wholeNumber)
    .option('--max <n>', 'maximum number of loaded copies', wholeNumber)
    .addOption(
      new Option(
        '--target-in-flight <n>',
        'add a copy above this many requests per copy; "default": as many as the model serves at once',
      )
        .argParser(countOrDefault)
        .conflicts('targetWaitMs'),
    )
    .option(
      '--target-wait-ms <n>',
      'add a copy when requests wait longer than this many milliseconds',
      wholeNumber,
    )
    .option(
      '--idle-timeout <seconds>',
      'unload an unneeded copy after this many seconds; 0: never; "default": the idle timeout of each node',
      countOrDefault,
    )
    .option(
      '--schedule <entry>',
      "'<cron> <timezone> <min>': set the minimum at these times, until another entry applies; the latest past time applies at once. Repeat the option for several entries; they replace the current schedule",
      scheduleEntry,
    )
    .option('--no-schedule', 'remove the schedule')
    .action(
      asAccount(async ({ h, json }, given: string, options: ScaleOptions) => {
        const current = await h.endpoints.scaling(given)
        const change = changeOf(current, options)
        const scaling = change ? await h.endpoints.setScaling(given, change) : current
        print({ json }, scaling, formatScaling(scaling))
      }),
    )
}

const CRON_FIELDS = 5

/**
 * Parses a schedule entry and appends it to the earlier ones. The gateway validates the cron expression and time zone.
 */
function scheduleEntry(text: string, earlier: Schedule | false = []): Schedule {
  const words = text.trim().split(/\s+/)
  const [timezone = '', min = '', ...rest] = words.slice(CRON_FIELDS)
  if (rest.length > 0 || !/^\d{1,9}$/.test(min))
    throw new InvalidArgumentError(
      "Expected five cron fields, a time zone and a number of copies, such as '0 8 * * 1-5 Europe/Berlin 2'.",
    )
  const entry = { cron: words.slice(0, CRON_FIELDS).join(' '), timezone, min: Number(min) }
  return [...(earlier || []), entry]
}

/**
 * Merges the options into the current setting, because the gateway replaces all of it; undefined if nothing changes.
 */
function changeOf(
  current: Scaling,
  { min, max, targetInFlight, targetWaitMs, idleTimeout, schedule }: ScaleOptions,
): SetScaling | undefined {
  const hasTarget = targetInFlight !== undefined || targetWaitMs !== undefined
  const others = [min, max, idleTimeout, schedule]
  if (!hasTarget && others.every((option) => option === undefined)) return undefined
  const { target_in_flight, target_wait_ms } = hasTarget
    ? { target_in_flight: numberOf(targetInFlight), target_wait_ms: numberOf(targetWaitMs) }
    : current
  return {
    min: min ?? current.min,
    max: max ?? current.max,
    target_in_flight,
    target_wait_ms,
    idle_timeout_s: idleTimeout === undefined ? current.idle_timeout_s : numberOf(idleTimeout),
    schedule: schedule === false ? [] : (schedule ?? current.schedule),
  }
}

const numberOf = (option: number | 'default' | undefined): number | null =>
  typeof option === 'number' ? option : null

function formatScaling(scaling: Scaling): string {
  const { name, model_key, max, schedule, copies, missing, changes, quota } = scaling
  const rows = [
    ['Endpoint', `${name}, model ${model_key}`],
    ['Copies', `${copies.wanted} wanted, ${copies.loaded} loaded, ${copies.loading} loading`],
    ['Why fewer', missing],
    ['Min', minOf(scaling)],
    ['Max', String(max)],
    ['Target', targetOf(scaling)],
    ['Idle', idleOf(scaling)],
    ...schedule.map((entry) => ['Schedule', `${entry.cron} ${entry.timezone}: at least ${entry.min}`]),
    ['Quota', `the account reserves ${quota.reserved} of ${quota.copies} copies`],
  ] as const
  const lines = rows.flatMap(([label = '', value]) => (value ? [`${label.padEnd(9)}  ${value}`] : []))
  if (changes.length === 0) return lines.join('\n')
  const rowsOfChanges = changes.map(({ at, from, to, reason }) => [at, `${from} -> ${to}`, reason])
  return [...lines, '', table(['CHANGED', 'COPIES', 'WHY'], rowsOfChanges)].join('\n')
}

function minOf({ min, effective_min, effective_min_by }: Scaling): string {
  if (effective_min === min) return String(min)
  const by = { min: '', schedule: ' by the schedule', operators: ' by operators', paused: ', paused' }
  return `${min}, now ${effective_min}${by[effective_min_by]}`
}

function targetOf({ target_in_flight, target_wait_ms }: Scaling): string {
  if (target_in_flight !== null) return `${target_in_flight} requests per copy`
  return target_wait_ms === null ? 'what the model serves at once' : `${target_wait_ms} ms of waiting`
}

function idleOf({ idle_timeout_s }: Scaling): string {
  if (idle_timeout_s === null) return "unloaded after each node's HEARTH_IDLE_UNLOAD_S"
  return idle_timeout_s === 0 ? 'never unloaded' : `unloaded after ${idle_timeout_s} s`
}
