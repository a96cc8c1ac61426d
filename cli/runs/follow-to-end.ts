import type { TrainingRun } from '../../schemas/training-run.ts'
import { measure } from '../amounts.ts'
import type { AccountContext } from '../as-account.ts'
import { print } from '../print.ts'
import { watching } from '../screen.ts'
import { leftOutOf, warningsOf } from './left-out.ts'
import { failureOf, watchRun } from './watch.ts'

interface StartedRun {
  runId: string
  name: string
}

/** Follows a started run and prints how it ended. Ctrl-C leaves the run running. */
export async function followToEnd({ h, json }: AccountContext, begun: StartedRun): Promise<void> {
  const { runId } = begun
  const run = await watching(
    `the run continues; npx hearth runs logs -f ${runId} follows it, runs cancel stops it.`,
    () => watchRun(h, begun, json ? undefined : process.stderr),
  )
  const failure = failureOf(run)
  if (json || !failure) print({ json }, run, formatRunOutcome(run))
  if (failure) throw failure
}

function formatRunOutcome(run: TrainingRun): string {
  const { job_id, job_name, metrics, version_id } = run
  const leftOut = leftOutOf(run)
  const figures = Object.entries(metrics).flatMap(([name, value]) =>
    typeof value === 'number' ? [`${name} ${measure(value)}`] : [],
  )
  return [
    `Run ${job_id} (${job_name}) completed${figures.length > 0 ? `: ${figures.join(', ')}` : ''}.`,
    ...(leftOut === undefined ? [] : [`Columns left out: ${leftOut}.`]),
    ...warningsOf(run).map((message) => `Warning: ${message}`),
    `Its model is version ${version_id}; serve it with \`npx hearth endpoints create <name> --run ${job_id}\`.`,
  ].join('\n')
}
