import type { Command } from 'commander'
import type { OpenWork, Queues } from '../../schemas/operations.ts'
import { seconds } from '../amounts.ts'
import { open } from '../context.ts'
import { print, table } from '../print.ts'

/** Shows queued work. */
export function queuesCommand(queues: Command): void {
  queues
    .option('--all', 'include queues that have neither tasks nor pollers')
    .action(async ({ all }: { all?: boolean }, command: Command) => {
      const context = open(command)
      const found = await context.client.call<Queues>('GET', '/queues')
      const shown = found.queues.filter(({ backlog, pollers }) => all || backlog > 0 || pollers > 0)
      const rows = shown.map((one) => [
        one.name,
        one.kind,
        one.backlog,
        one.backlog > 0 ? seconds(one.backlog_age_s) : null,
        one.added_per_s.toFixed(1),
        one.dispatched_per_s.toFixed(1),
        one.pollers,
      ])
      const headings = ['QUEUE', 'KIND', 'BACKLOG', 'OLDEST', 'ADDED/s', 'TAKEN/s', 'POLLERS']
      const temporal = found.temporal === 'ok' ? table(headings, rows) : 'Temporal is unreachable.'
      print(context, found, `${workTable(found.work)}\n\n${temporal}`)
    })
}

/** Formats open work by kind. */
export const workTable = (work: readonly OpenWork[]): string =>
  table(
    ['WORK', 'WAITING', 'RUNNING', 'OLDEST'],
    work.map((one) => [
      one.kind,
      one.waiting,
      one.running,
      one.oldest_waiting_s === null ? null : seconds(one.oldest_waiting_s),
    ]),
  )
