import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { readConfig } from '../../platform/config.ts'
import type { Plan } from '../../schemas/cohort-plan.ts'
import type { CohortAccepted, CohortSummary } from '../../schemas/cohort.ts'
import { filled, headerText, wholeNumber } from '../arguments.ts'
import { usageError } from '../cli-error.ts'
import { failureOf, follow, hasEnded } from '../cohorts/follow.ts'
import { graphIn, readInput, readObject, runIn } from '../cohorts/read-request.ts'
import { cohortInWords, edgesInWords, planInWords } from '../cohorts/words.ts'
import { findPlatform, type GlobalOptions } from '../context.ts'
import { PlatformClient } from '../platform-client.ts'
import { print } from '../print.ts'
import { id } from './accounts.ts'

interface CohortOptions extends GlobalOptions {
  apiKey?: string
  account?: string
  user?: string
}

interface RunOptions {
  input?: string
  deadline?: number
  resume?: string
  watch?: boolean
}

/** Graphs of models: planned, run over the nodes, and followed. */
export function cohortCommands(program: Command): void {
  const cohorts = program
    .command('cohorts')
    .description('plan and run graphs of models over the nodes (docs/cohorts.md)')
    .option('--api-key <key>', 'HEARTH_API_KEY, else that of the platform running here', headerText)
    .option('--account <id>', 'its account: HEARTH_ACCOUNT_ID, else that of the platform running here')
    .option('--user <name>', 'for whom it runs: HEARTH_USER_ID, else the user of this machine', headerText)

  cohorts
    .command('plan <file>')
    .description('show where each stage of a graph would run, or why it cannot; - reads standard input')
    .action(async (file: string, _options: object, command: Command) => {
      const { client, json } = reached(command)
      const plan = await client.call<Plan>('POST', '/api/v1/cohorts:plan', graphIn(file, readObject(file)))
      print({ json }, plan, planInWords(plan))
      if (!plan.feasible) process.exitCode = 1
    })

  cohorts
    .command('run <file>')
    .description('run a graph, or a request with its graph and input; - reads standard input')
    .option('--input <json>', 'the input of the run: JSON, or a file that holds it', filled)
    .option('--deadline <seconds>', 'ends the run when so much time has passed', wholeNumber)
    .option('--resume <cohort_id>', 'take over the finished stages of a cohort that has ended')
    .option('--watch', 'show its stages until it has ended; what is shown goes to standard error')
    .action(async (file: string, options: RunOptions, command: Command) => {
      const { client, json } = reached(command)
      const { input, deadline, resume, watch } = options
      if (file === '-' && input === '-') throw usageError('only one of the graph and the input can be -')
      const resumeOf = resume === undefined ? undefined : id(resume)
      const request = runIn(file, readObject(file), input === undefined ? undefined : readInput(input))
      const accepted = await client.call<CohortAccepted>('POST', '/api/v1/cohorts:run', {
        ...request,
        ...(deadline !== undefined && { deadline_s: deadline }),
        ...(resumeOf !== undefined && { resume_of: resumeOf }),
      })
      const { task_id, cohort_id } = accepted
      if (watch) return watched(client, task_id, json)
      const hint = `npx hearth cohorts show ${task_id} shows it.`
      print({ json }, accepted, `Cohort ${cohort_id} is ${accepted.status}, as task ${task_id}.\n${hint}`)
    })

  cohorts
    .command('show <task_id>')
    .description('show the stages and hand-overs of a cohort, by the id of its task')
    .option('--watch', 'until it has ended; what is shown goes to standard error')
    .action(async (taskId: string, { watch }: { watch?: boolean }, command: Command) => {
      const { client, json } = reached(command)
      if (watch) return watched(client, id(taskId), json)
      const cohort = await client.call<CohortSummary>('GET', `/api/v1/tasks/${id(taskId)}/cohort`)
      const words = [cohortInWords(cohort), ...(cohort.edges.length > 0 ? [edgesInWords(cohort)] : [])]
      if (hasEnded(cohort) && cohort.status === 'succeeded') words.push(await resultOf(client, taskId))
      print({ json }, cohort, words.join('\n\n'))
    })
}

/** Follows a cohort to its end, then prints its outputs, or with `--json` its summary. */
async function watched(client: PlatformClient, taskId: string, json: boolean): Promise<void> {
  const leave = () => {
    console.error(`\nhearth: the cohort goes on; npx hearth cohorts show ${taskId} shows it.`)
    process.exit(130)
  }
  process.once('SIGINT', leave)
  const cohort = await follow(client, taskId, json ? undefined : process.stderr)
  process.off('SIGINT', leave)
  const failure = failureOf(cohort)
  if (json) console.log(JSON.stringify(cohort, null, 2))
  else if (!failure) console.log(await resultOf(client, taskId))
  if (failure) throw failure
}

async function resultOf(client: PlatformClient, taskId: string): Promise<string> {
  const task = await client.call<{ result: unknown }>('GET', `/api/builder/v1/tasks/${taskId}`)
  return JSON.stringify(task.result, null, 2)
}

/** Returns a client with the key, account and user of the options, the environment or a platform running here. */
function reached(command: Command): { client: PlatformClient; json: boolean } {
  const options = command.optsWithGlobals<CohortOptions>()
  const config = readConfig()
  const { baseUrl, ready } = findPlatform(options, config)
  const key = options.apiKey ?? (config.HEARTH_API_KEY || ready?.api_key)
  const account = options.account ?? (config.HEARTH_ACCOUNT_ID || ready?.account_id)
  if (!key) {
    throw usageError(
      `An API key is needed for ${baseUrl}: set HEARTH_API_KEY or pass --api-key. \`npx hearth keys create\` makes one.`,
    )
  }
  if (!account)
    throw usageError('The account of the API key is needed: set HEARTH_ACCOUNT_ID or pass --account.')
  const client = new PlatformClient(baseUrl, {
    prefix: '',
    headers: {
      'x-api-key': key,
      'x-account-id': id(account),
      'x-user-id': options.user ?? (config.HEARTH_USER_ID || userInfo().username),
    },
    credential: 'this API key. Check HEARTH_API_KEY or --api-key',
  })
  return { client, json: options.json ?? false }
}
