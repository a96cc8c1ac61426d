import { type Command, Option } from 'commander'
import type { TrainingRun, TrainingRunListQuery, TrainingRunStatus } from '../../schemas/training-run.ts'
import { measure } from '../amounts.ts'
import { filled, orderOption, sortOption, wholeNumber } from '../arguments.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { id } from '../ids.ts'
import { datasetId } from '../names.ts'
import { inJson, plain, print, printStatus, printLine, table } from '../print.ts'
import { curve, type Series } from '../runs/curve.ts'
import { followToEnd } from '../runs/follow-to-end.ts'
import { leftOutOf, warningsOf } from '../runs/left-out.ts'
import { parameter, type TypedParameters, valuesOf } from '../runs/parameters.ts'
import { failureOf, stateOf } from '../runs/watch.ts'
import { watching } from '../screen.ts'
import { formatAccepted } from './train.ts'

interface RerunOptions {
  param?: TypedParameters
  dataset?: string
  name?: string
  watch?: boolean
}

interface ListOptions extends Pick<TrainingRunListQuery, 'sort' | 'order'> {
  status?: TrainingRunStatus | 'paused'
  limit: number
}

const WATCH = "show the run's loss curve on standard error until the run ends"
const CURVE = { width: 100, height: 12 }

/** Commands for training runs and merges. */
export function runCommands(runs: Command): void {
  runs
    .command('ls')
    .alias('list')
    .description('list runs and merges, newest first by default')
    .addOption(
      new Option('--status <status>', 'filter by status').choices([
        'pending',
        'running',
        'paused',
        'completed',
        'failed',
        'cancelled',
      ]),
    )
    .addOption(sortOption())
    .addOption(orderOption())
    .option('--limit <n>', 'maximum number of runs', wholeNumber, 20)
    .action(
      asAccount(async ({ h, json }, { status, limit, ...sorted }: ListOptions) => {
        const query: TrainingRunListQuery = {
          ...(status === 'paused' ? { paused: true } : status && { status, paused: false }),
          ...sorted,
          limit: Math.min(100, limit),
        }
        const list = await h.runs.list(query).all(limit)
        const rows = list.map((run) => [
          run.job_id,
          run.job_name,
          run.job_type,
          stateOf(run),
          run.progress && `${run.progress.pct} %`,
          run.model_config_id,
          run.created_at,
          run.error_message ?? run.waiting?.reason,
        ])
        print(
          { json },
          list,
          table(['RUN', 'NAME', 'TYPE', 'STATUS', 'DONE', 'CONFIG', 'CREATED', 'WHY'], rows),
        )
      }),
    )

  runs
    .command('get <run_id>')
    .alias('show')
    .description('show a run: its state, settings, metrics and history')
    .action(
      asAccount(async ({ h, json }, runId: string) => {
        const [run, { events }] = await Promise.all([h.runs.get(id(runId)), h.runs.events(runId)])
        const rows = events.map((one) => [one.timestamp, one.event_type, one.detail])
        print({ json }, run, `${formatRun(run)}\n\n${table(['TIME', 'EVENT', 'DETAIL'], rows)}`)
      }),
    )

  followCommands(runs)

  runs
    .command('cancel <run_id>')
    .description('cancel a run or a merge')
    .action(
      asAccount(async ({ h, json }, runId: string) => {
        const cancelled = await h.runs.cancel(id(runId))
        print({ json }, cancelled, `Run ${runId} is ${cancelled.status}.`)
      }),
    )

  pauseCommands(runs)

  runs
    .command('again <run_id>')
    .description('rerun a training run with changes')
    .option('-p, --param <name=value>', 'change a hyperparameter (repeatable)', parameter)
    .option('--dataset <id or name>', 'use another dataset')
    .option('--name <name>', 'name of the new run', filled)
    .option('--watch', WATCH)
    .action(asAccount(again))
}

function pauseCommands(runs: Command): void {
  runs
    .command('pause <run_id>')
    .description('pause a run after its next checkpoint')
    .action(
      asAccount(async ({ h, json }, runId: string) => {
        const paused = await h.runs.pause(id(runId))
        print(
          { json },
          paused,
          `Run ${runId} is paused; continue it with \`npx hearth runs resume ${runId}\`.`,
        )
      }),
    )

  runs
    .command('resume <run_id>')
    .description('resume a paused run from its newest checkpoint')
    .option('--watch', WATCH)
    .action(
      asAccount(async (context, runId: string, { watch }: { watch?: boolean }) => {
        const { h, json } = context
        const resumed = await h.runs.resume(id(runId))
        if (watch) return followToEnd(context, { runId, name: (await h.runs.get(runId)).job_name })
        print(
          { json },
          resumed,
          `Run ${runId} is ${stateOf(resumed)}; follow it with \`npx hearth runs logs -f ${runId}\`.`,
        )
      }),
    )
}

/** Commands that show the log and the metrics of a run. */
function followCommands(runs: Command): void {
  runs
    .command('logs <run_id>')
    .description('show the log of a run')
    .option('-f, --follow', 'follow the log until the run ends')
    .option('-n, --lines <n>', 'number of newest lines', wholeNumber, 200)
    .action(
      asAccount(
        async ({ h, json }, runId: string, { follow, lines }: { follow?: boolean; lines: number }) => {
          const { logs, after } = await h.runs.logs(id(runId), { limit: Math.max(1, lines) })
          const tell = (line: { timestamp: string; message: string }) =>
            printLine(json ? inJson(line) : `${line.timestamp} ${line.message}`)
          if (json && !follow) return print({ json }, logs, '')
          for (const line of logs) tell(line)
          if (!follow) return
          const run = await watching(
            `the run continues; repeat the command to follow it again.`,
            async () => {
              for await (const event of h.runs.stream(runId, {
                types: ['log'],
                ...(after !== null && { after }),
              })) {
                if (event.event === 'log') tell(event.data)
                if (event.event === 'done') return event.data
              }
              return h.runs.get(runId)
            },
          )
          const failure = failureOf(run)
          if (failure) throw failure
          printStatus(`hearth: the run is ${run.status}.`)
        },
      ),
    )

  runs
    .command('metrics <run_id>')
    .description('show the metrics of a run and its curve')
    .action(
      asAccount(async ({ h, json }, runId: string) => {
        const found = await h.runs.metrics(id(runId))
        const { epochs, ...figures } = found.metrics
        const names = [...new Set(epochs.flatMap((one) => Object.keys(one)))].filter(
          (name) => name !== 'epoch',
        )
        const series = names.map((name): Series => ({
          name,
          points: epochs.flatMap((one) => {
            const value: unknown = Reflect.get(one, name)
            return typeof value === 'number' ? [[one.epoch, value] as const] : []
          }),
        }))
        const rows = epochs.map((one) => [one.epoch, ...names.map((name) => figure(Reflect.get(one, name)))])
        const words = [
          figuresOf(figures) || 'No metrics yet.',
          ...curve(series, CURVE),
          ...(rows.length > 0
            ? ['', table(['EPOCH', ...names.map((name) => name.toUpperCase())], rows)]
            : []),
        ]
        print({ json }, found, words.join('\n'))
      }),
    )
}

async function again(
  context: AccountContext,
  runId: string,
  { param, dataset, name, watch }: RerunOptions,
): Promise<void> {
  const { h, json } = context
  const earlier = await h.runs.get(id(runId))
  const accepted = await h.runs.again(runId, {
    ...(param && {
      hyperparameters: await valuesOf(h, earlier.model_config_id, param),
    }),
    ...(dataset !== undefined && { dataset_id: await datasetId(h, dataset) }),
    ...(name !== undefined && { job_name: name }),
  })
  if (watch) return followToEnd(context, { runId: accepted.job_id, name: name ?? earlier.job_name })
  print({ json }, accepted, formatAccepted(accepted))
}

const figure = (value: unknown): string | null => (typeof value === 'number' ? measure(value) : null)

const figuresOf = (metrics: Readonly<Record<string, unknown>>): string =>
  Object.entries(metrics)
    .flatMap(([name, value]) => (typeof value === 'number' ? [`${name} ${measure(value)}`] : []))
    .join(', ')

function formatRun(run: TrainingRun): string {
  const { progress, waiting, queue_position: ahead } = run
  const rows: [string, string | null | undefined][] = [
    ['Run', `${run.job_id} (${run.job_name}), ${run.job_type}, attempt ${run.attempt}`],
    ['Status', [stateOf(run), run.error_message].filter(Boolean).join(': ')],
    ['Waits for', waiting && `${waiting.reason}, since ${waiting.since}`],
    ['Ahead of it', ahead === null || ahead === undefined ? null : `${ahead} in the queue`],
    ['Progress', progress && `${progress.pct} %, ${progress.step} of ${progress.of}`],
    ['Config', `${run.model_config_id} ${JSON.stringify(run.hyperparameters)}`],
    ['Dataset', run.dataset_id],
    ['Base', run.base && JSON.stringify(run.base)],
    ['Measures', figuresOf(run.metrics) || null],
    ['Left out', leftOutOf(run)],
    ...warningsOf(run).map((message): [string, string] => ['Warning', message]),
    ['Version', run.version_id],
    ['Times', [run.created_at, run.started_at, run.completed_at].filter(Boolean).join(' -> ')],
  ]
  return rows.flatMap(([label, value]) => (value ? [`${label.padEnd(11)}  ${plain(value)}`] : [])).join('\n')
}
