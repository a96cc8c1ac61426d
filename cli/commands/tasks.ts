import { type Command, InvalidArgumentError, Option } from 'commander'
import type { InferenceTask, TaskListQuery, TaskStatus } from '../../schemas/inference-task.ts'
import { orderOption, timeOf, wholeNumber } from '../arguments.ts'
import { asAccount } from '../as-account.ts'
import { CliError } from '../cli-error.ts'
import { id } from '../ids.ts'
import { inJson, plain, print, printLine, table } from '../print.ts'
import { watching } from '../screen.ts'

interface ListOptions {
  status?: TaskStatus
  endpoint?: string
  surface?: NonNullable<TaskListQuery['surface']>
  since?: string
  order?: NonNullable<TaskListQuery['order']>
  limit: number
}

/** Commands for inference tasks. */
export function taskCommands(tasks: Command): void {
  tasks
    .command('ls')
    .alias('list')
    .description('list tasks, newest first by default')
    .option('--status <status>', 'filter by status, such as queued, running, succeeded or failed', word)
    .option('--endpoint <id>', 'filter by endpoint', id)
    .addOption(
      new Option('--surface <surface>', 'filter by the API that accepted them').choices([
        'rest',
        'openai',
        'mcp',
        'action',
        'cohort',
      ]),
    )
    .option('--since <time>', 'created at this time or later', timeOf)
    .addOption(orderOption())
    .option('--limit <n>', 'maximum number of tasks', wholeNumber, 20)
    .action(
      asAccount(async ({ h, json }, { status, endpoint, surface, since, order, limit }: ListOptions) => {
        const query = {
          ...(status && { status }),
          ...(endpoint !== undefined && { endpoint_id: endpoint }),
          ...(surface && { surface }),
          ...(since !== undefined && { since }),
          ...(order && { order }),
          limit: Math.min(100, limit),
        }
        const list = await h.tasks.list(query).all(limit)
        const rows = list.map((task) => [
          task.task_id,
          task.status,
          task.surface,
          task.endpoint_id,
          task.model_state,
          task.inference_time_ms === null ? null : Math.round(task.inference_time_ms),
          task.created_at,
          task.error,
        ])
        const headings = ['TASK', 'STATUS', 'BY', 'ENDPOINT', 'MODEL WAS', 'RUN ms', 'CREATED', 'ERROR']
        print({ json }, list, table(headings, rows))
      }),
    )

  tasks
    .command('get <task_id>')
    .alias('show')
    .description('show a task and its result')
    .action(
      asAccount(async ({ h, json }, taskId: string) => {
        const task = await h.tasks.get(id(taskId))
        print({ json }, task, formatTask(task))
      }),
    )

  tasks
    .command('wait <task_id>')
    .description('wait until a task ends, and print its result')
    .action(
      asAccount(async ({ h, json }, taskId: string) => {
        const task = await watching(
          `the task continues; run \`npx hearth tasks wait ${taskId}\` to resume waiting.`,
          () => h.tasks.wait(id(taskId)),
        )
        if (json) print({ json }, task, '')
        else if (task.status === 'succeeded') printLine(inJson(task.result, 2))
        if (task.status === 'failed') throw taskFailed(task)
      }),
    )

  tasks
    .command('cancel <task_id>')
    .description('cancel a task; cancelled tasks are not charged')
    .action(
      asAccount(async ({ h, json }, taskId: string) => {
        const cancelled = await h.tasks.cancel(id(taskId))
        print({ json }, cancelled, `Task ${taskId} has ended.`)
      }),
    )
}

/** Returns the error for a failed task; the command then exits with 1. */
export const taskFailed = ({ task_id, error }: Pick<InferenceTask, 'task_id' | 'error'>): CliError =>
  new CliError(`task ${task_id} failed: ${plain(error ?? 'unknown reason')}`)

/** Checks only the form of a status: the platform knows which ones exist and rejects others. */
function word(text: string): string {
  if (/^[a-z_]+$/.test(text)) return text
  throw new InvalidArgumentError('Expected a status such as queued, running, succeeded or failed.')
}

function formatTask(task: InferenceTask): string {
  const detail = task.status_detail
  const rows: [string, string | null][] = [
    ['Task', `${task.task_id} on endpoint ${task.endpoint_id}`],
    ['Status', [task.status, task.error].filter(Boolean).join(': ')],
    ['Now', detail && task.completed_at === null ? `${detail.status}, ${detail.progress_pct} %` : null],
    ['Model was', task.model_state],
    ['Took', task.inference_time_ms === null ? null : `${Math.round(task.inference_time_ms)} ms`],
    ['Times', [task.created_at, task.completed_at].filter(Boolean).join(' -> ')],
  ]
  const words = rows.flatMap(([label, value]) => (value ? [`${label.padEnd(9)}  ${plain(value)}`] : []))
  return [...words, ...(task.result ? ['', inJson(task.result, 2)] : [])].join('\n')
}
