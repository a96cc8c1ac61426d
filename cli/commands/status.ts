import type { Command } from 'commander'
import { type AccountContext, asAccount } from '../as-account.ts'
import { CliError } from '../cli-error.ts'
import { print, table } from '../print.ts'

/** Shows the health of the platform and the open work of the account. */
export function statusCommand(status: Command): void {
  status.action(
    asAccount(async ({ h, baseUrl, json }: AccountContext, _options: object) => {
      const [health, queue, open] = await Promise.all([
        h.platform.inferenceHealth(),
        h.tasks.queue(),
        Promise.all((['running', 'pending'] as const).map((state) => h.runs.list({ status: state }).all())),
      ])
      const runs = open.flat()
      const { nodes, models, database, temporal } = health
      const rows = runs.map((run) => [run.job_id, run.job_name, run.status, run.waiting?.reason])
      const words = [
        `${baseUrl} is ${health.status}, version ${health.version}: database ${database.status}, Temporal ${temporal.status}.`,
        health.accepts_work ? 'It accepts new work.' : 'It rejects new work: the kill switch is active.',
        `${nodes.linked} nodes connected (${nodes.draining} draining), ${models.warm} models loaded, ${models.cached} on disk.`,
        `Your account has ${queue.queue_size} open tasks and ${runs.length} open runs.`,
        ...(runs.length > 0 ? ['', table(['RUN', 'NAME', 'STATUS', 'WAITS FOR'], rows)] : []),
      ]
      print({ json }, { health, queue, open_runs: runs }, words.join('\n'))
      if (health.status === 'unavailable') throw new CliError('the platform is unavailable')
    }),
  )
}
