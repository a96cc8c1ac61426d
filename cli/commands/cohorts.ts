import type { Command } from 'commander'
import { isUuid } from '../../domain/uuid.ts'
import type { Plan } from '../../schemas/cohort-plan.ts'
import type { CohortAccepted } from '../../schemas/cohort.ts'
import type { ListedTask, TaskCancelled } from '../../schemas/inference-task.ts'
import { filled, headerText, wholeNumber } from '../arguments.ts'
import { CliError, usageError } from '../cli-error.ts'
import { deadline as deadlineOf } from '../cohorts/deadline.ts'
import { eventsAfter, failureOf, follow, hasEnded, retriesIn, summaryOf } from '../cohorts/follow.ts'
import { reached } from '../cohorts/reach.ts'
import { graphIn, readInput, readObject, runIn } from '../cohorts/read-request.ts'
import {
  addNames,
  cohortInWords,
  edgesInWords,
  eventInWords,
  type Named,
  planInWords,
  resumeInWords,
} from '../cohorts/words.ts'
import { id } from '../ids.ts'
import type { PlatformClient } from '../platform-client.ts'
import { inJson, print, remark, say, table } from '../print.ts'
import { watching } from '../screen.ts'

interface RunOptions {
  input?: string
  deadline?: number
  resume?: string
  idempotencyKey?: string
  watch?: boolean
}

/** Graphs of models: planned, run over the nodes, and followed. */
export function cohortCommands(cohorts: Command): void {
  cohorts
    .option('--account <id>', 'its account: HEARTH_ACCOUNT_ID, else that of the key')
    .option('--user <name>', 'for whom it runs: HEARTH_USER_ID, else the user of this machine', headerText)

  cohorts
    .command('plan <file>')
    .description('show where each stage of a graph would run, or why it cannot; - reads standard input')
    .action(async (file: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const plan = await client.call<Plan>('POST', '/api/v1/cohorts:plan', graphIn(file, readObject(file)))
      print({ json }, plan, planInWords(plan))
      if (!plan.feasible) process.exitCode = 1
    })

  cohorts
    .command('run <file>')
    .description('run a graph, or a request with its graph and input; - reads standard input')
    .option('--input <json>', 'the input of the run: JSON, or a file that holds it', filled)
    .option('--deadline <seconds>', 'ends the run when so much time has passed', deadlineOf)
    .option(
      '--resume <id>',
      'take over the finished stages of a cohort that has ended; its task_id or cohort_id',
    )
    .option(
      '--idempotency-key <key>',
      'a UUID of yours, with which a repeat of the command is the same run',
      idempotencyKeyOf,
    )
    .option('--watch', 'show its stages until it has ended; what is shown goes to standard error')
    .action(async (file: string, options: RunOptions, command: Command) => {
      const { client, json } = await reached(command)
      const { input, deadline, resume, idempotencyKey, watch } = options
      if (file === '-' && input === '-') throw usageError('only one of the graph and the input can be -')
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
      if (resumeOf !== undefined && !json) await tellResumed(client, task_id)
      if (watch) return watched(client, task_id, json)
      const hint = `npx hearth cohorts show ${task_id} shows it.`
      print({ json }, accepted, `Cohort ${cohort_id} is ${accepted.status}, as task ${task_id}.\n${hint}`)
    })

  cohorts
    .command('show <task_id>')
    .description('show the stages and hand-overs of a cohort, by the id of its task, which run and list tell')
    .option('--watch', 'until it has ended; what is shown goes to standard error')
    .action(async (taskId: string, { watch }: { watch?: boolean }, command: Command) => {
      const { client, json } = await reached(command)
      if (watch) return watched(client, id(taskId), json)
      const cohort = await summaryOf(client, id(taskId))
      const isRepeated = cohort.stages.some(({ attempt }) => attempt > 1)
      const retries = retriesIn(isRepeated ? await eventsAfter(client, taskId, undefined) : [])
      const words = [
        cohortInWords(cohort, retries),
        ...(cohort.edges.length > 0 ? [edgesInWords(cohort)] : []),
      ]
      if (hasEnded(cohort) && cohort.status === 'succeeded') words.push(await resultOf(client, taskId))
      print({ json }, cohort, words.join('\n\n'))
    })

  recordCommands(cohorts)
}

const LISTED = 20

/** What there is of cohorts, and their end. */
function recordCommands(cohorts: Command): void {
  cohorts
    .command('list')
    .alias('ls')
    .description('list the cohorts of the account by their tasks, newest first')
    .option('--limit <n>', 'how many, at most 100', wholeNumber, LISTED)
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
    .description('show what has happened to a cohort, oldest first')
    .action(async (taskId: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const names: Named = { edges: new Map(), nodes: new Map() }
      addNames(names, await summaryOf(client, id(taskId)))
      const events = await eventsAfter(client, taskId, undefined)
      print({ json }, events, events.map((event) => eventInWords(event, names)).join('\n'))
    })

  cohorts
    .command('cancel <task_id>')
    .description('end a cohort with all its work')
    .action(async (taskId: string, _options: object, command: Command) => {
      const { client, json } = await reached(command)
      const path = `/api/builder/v1/tasks/${id(taskId)}:cancel`
      const cancelled = await client.call<TaskCancelled>('POST', path)
      print({ json }, cancelled, `The cohort of task ${taskId} is cancelled; it costs nothing.`)
    })
}

/** Says which stages a run has taken over, or why none, beside its result. */
async function tellResumed(client: PlatformClient, taskId: string): Promise<void> {
  const events = await eventsAfter(client, taskId, undefined)
  for (const words of events.map(resumeInWords)) if (words !== undefined) remark(words)
}

function idempotencyKeyOf(text: string): string {
  if (isUuid(text)) return text
  throw usageError(`--idempotency-key: ${JSON.stringify(text)} must be a UUID, as \`uuidgen\` makes one`)
}

/** Follows a cohort to its end, then prints its outputs, or with `--json` its summary. */
async function watched(client: PlatformClient, taskId: string, json: boolean): Promise<void> {
  const shows = `npx hearth cohorts show ${taskId}`
  if (!json) remark(`Task ${taskId}`)
  const cohort = await watching(`the cohort goes on; ${shows} shows it.`, () =>
    follow(client, taskId, json ? undefined : process.stderr).catch((err: unknown) => {
      if (!(err instanceof CliError)) throw err
      throw new CliError(`${err.message} The cohort may go on; ${shows} shows it.`, err.exitCode, err.issues)
    }),
  )
  const failure = failureOf(cohort)
  if (json) say(inJson(cohort, 2))
  else if (!failure) say(await resultOf(client, taskId))
  if (failure) throw failure
}

async function resultOf(client: PlatformClient, taskId: string): Promise<string> {
  const task = await client.call<{ result: unknown }>('GET', `/api/builder/v1/tasks/${taskId}`)
  return inJson(task.result, 2)
}
