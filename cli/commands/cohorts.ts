import { type Command, InvalidArgumentError } from 'commander'
import { isUuid } from '../../domain/uuid.ts'
import type { CohortAccepted } from '../../schemas/cohorts/cohort.ts'
import { type Plan, MAX_DEADLINE_S } from '../../schemas/cohorts/plan.ts'
import type { ListedTask, TaskCancelled } from '../../schemas/inference-task.ts'
import { filled, headerText, wholeNumber } from '../arguments.ts'
import { CliError, usageError } from '../cli-error.ts'
import { eventsAfter, failureOf, follow, hasEnded, retriesIn, summaryOf } from '../cohorts/follow.ts'
import {
  addNames,
  formatCohort,
  formatEdges,
  formatEvent,
  type DisplayNames,
  formatPlan,
  formatResume,
} from '../cohorts/formatters.ts'
import { reached } from '../cohorts/reach.ts'
import { graphIn, readInput, readObject, runIn } from '../cohorts/read-request.ts'
import { id } from '../ids.ts'
import type { PlatformClient } from '../platform-client.ts'
import { inJson, print, printStatus, printLine, table } from '../print.ts'
import { watching } from '../screen.ts'

interface RunOptions {
  input?: string
  deadline?: number
  resume?: string
  idempotencyKey?: string
  watch?: boolean
}

/** Commands that plan, run and follow cohorts. */
export function cohortCommands(cohorts: Command): void {
  cohorts
    .option('--account <id>', "the account; default: HEARTH_ACCOUNT_ID, else the key's account")
    .option(
      '--user <name>',
      'the user to run it for; default: HEARTH_USER_ID, else the local user name',
      headerText,
    )

  cohorts
    .command('plan <file>')
    .description('show where each stage of a graph would run, or why it cannot run; - reads standard input')
    .action(async (file: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const plan = await client.call<Plan>('POST', '/api/v1/cohorts:plan', graphIn(file, readObject(file)))
      print({ json }, plan, formatPlan(plan))
      if (!plan.feasible) process.exitCode = 1
    })

  cohorts
    .command('run <file>')
    .description('run a graph, or a request that has the graph and its input; - reads standard input')
    .option('--input <json>', 'the input of the run: JSON, or the name of a JSON file', filled)
    .option('--deadline <seconds>', 'stop the run after this many seconds', deadlineOf)
    .option(
      '--resume <id>',
      'reuse the finished stages of an ended cohort, given by its task_id or cohort_id',
    )
    .option(
      '--idempotency-key <key>',
      'a UUID that you choose; repeating it refers to the same run',
      idempotencyKeyOf,
    )
    .option('--watch', 'show its stages on standard error until it ends')
    .action(async (file: string, options: RunOptions, command: Command) => {
      const { client, json } = await reached(command)
      const { input, deadline, resume, idempotencyKey, watch } = options
      if (file === '-' && input === '-') throw usageError('only one of the graph and --input can be -')
      const resumeOf = resume === undefined ? undefined : id(resume, '--resume')
      const request = runIn(file, readObject(file), input === undefined ? undefined : readInput(input))
      const body = {
        ...request,
        ...(deadline !== undefined && { deadline_s: deadline }),
        ...(resumeOf !== undefined && { resume_of: resumeOf }),
      }
      const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
      const accepted = await client.call<CohortAccepted>('POST', '/api/v1/cohorts:run', body, headers)
      const { task_id, cohort_id } = accepted
      if (resumeOf !== undefined && !json) await printResumed(client, task_id)
      if (watch) return watched(client, task_id, json)
      const hint = `Show it with \`npx hearth cohorts show ${task_id}\`.`
      print({ json }, accepted, `Cohort ${cohort_id} is ${accepted.status}, as task ${task_id}.\n${hint}`)
    })

  cohorts
    .command('show <task_id>')
    .description('show the stages and hand-overs of a cohort, by the task id that `run` and `list` print')
    .option('--watch', 'show it on standard error until it ends')
    .action(async (taskId: string, { watch }: { watch?: boolean }, command: Command) => {
      const { client, json } = await reached(command)
      if (watch) return watched(client, id(taskId), json)
      const cohort = await summaryOf(client, id(taskId))
      const isRepeated = cohort.stages.some(({ attempt }) => attempt > 1)
      const retries = retriesIn(isRepeated ? await eventsAfter(client, taskId, undefined) : [])
      const words = [formatCohort(cohort, retries), ...(cohort.edges.length > 0 ? [formatEdges(cohort)] : [])]
      if (hasEnded(cohort) && cohort.status === 'succeeded') words.push(await resultOf(client, taskId))
      print({ json }, cohort, words.join('\n\n'))
    })

  recordCommands(cohorts)
}

const LISTED = 20

/** Commands that list, inspect and cancel cohorts. */
function recordCommands(cohorts: Command): void {
  cohorts
    .command('list')
    .alias('ls')
    .description('list cohorts by their tasks, newest first')
    .option('--limit <n>', 'maximum number of cohorts, at most 100', wholeNumber, LISTED)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const { client, json } = await reached(command)
      const path = `/api/builder/v1/tasks?surface=cohort&limit=${limit}`
      const { tasks } = await client.call<{ tasks: ListedTask[] }>('GET', path)
      const rows = tasks.map((task) => [
        task.task_id,
        task.cohort_status ?? task.status,
        task.created_at,
        task.inference_time_ms === null ? null : Math.round(task.inference_time_ms),
        task.error,
      ])
      print({ json }, tasks, table(['TASK', 'STATUS', 'CREATED', 'RUN ms', 'ERROR'], rows))
    })

  cohorts
    .command('events <task_id>')
    .description('show the events of a cohort, oldest first')
    .action(async (taskId: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const names: DisplayNames = { edges: new Map(), nodes: new Map() }
      addNames(names, await summaryOf(client, id(taskId)))
      const events = await eventsAfter(client, taskId, undefined)
      print({ json }, events, events.map((event) => formatEvent(event, names)).join('\n'))
    })

  cohorts
    .command('cancel <task_id>')
    .description('cancel a cohort and all its work')
    .action(async (taskId: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const path = `/api/builder/v1/tasks/${id(taskId)}:cancel`
      const cancelled = await client.call<TaskCancelled>('POST', path)
      print({ json }, cancelled, `Cancelled the cohort of task ${taskId}; it is not charged.`)
    })
}

/** Prints, in addition to the result, which stages a resumed run reused, or why it reused none. */
async function printResumed(client: PlatformClient, taskId: string): Promise<void> {
  const events = await eventsAfter(client, taskId, undefined)
  for (const words of events.map(formatResume)) if (words !== undefined) printStatus(words)
}

function idempotencyKeyOf(text: string): string {
  if (isUuid(text)) return text
  throw usageError(`--idempotency-key: ${JSON.stringify(text)} must be a UUID, such as one from \`uuidgen\``)
}

/** Follows a cohort to its end, then prints its outputs, or with `--json` its summary. */
async function watched(client: PlatformClient, taskId: string, json: boolean): Promise<void> {
  const shows = `npx hearth cohorts show ${taskId}`
  if (!json) printStatus(`Task ${taskId}`)
  const cohort = await watching(`the cohort continues; ${shows} shows it.`, () =>
    follow(client, taskId, json ? undefined : process.stderr).catch((err: unknown) => {
      if (!(err instanceof CliError)) throw err
      throw new CliError(
        `${err.message} The cohort may still be running; ${shows} shows it.`,
        err.exitCode,
        err.issues,
      )
    }),
  )
  const failure = failureOf(cohort)
  if (json) printLine(inJson(cohort, 2))
  else if (!failure) printLine(await resultOf(client, taskId))
  if (failure) throw failure
}

async function resultOf(client: PlatformClient, taskId: string): Promise<string> {
  const task = await client.call<{ result: unknown }>('GET', `/api/builder/v1/tasks/${taskId}`)
  return inJson(task.result, 2)
}

/** Parses the deadline of a run. */
function deadlineOf(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_DEADLINE_S) return seconds
  throw new InvalidArgumentError(`Expected a whole number of seconds from 1 to ${MAX_DEADLINE_S}.`)
}
