import type { Command } from 'commander'
import type { Overview } from '../../schemas/operations.ts'
import { seconds } from '../amounts.ts'
import { open } from '../context.ts'
import { print } from '../print.ts'
import { workTable } from './queues.ts'

/** Shows the state of the platform at a glance. */
export function overviewCommand(overview: Command): void {
  overview.action(async (_options: object, command: Command) => {
    const context = open(command)
    const found = await context.client.call<Overview>('GET', '/overview')
    print(context, found, formatOverview(found))
  })
}

function formatOverview(found: Overview): string {
  const { nodes, kill_switch: killSwitch, requests, models } = found
  const copies = models.map((one) => `${one.models} ${one.state}`).join(', ') || 'none'
  const speed =
    requests.p95_ms === null
      ? ''
      : `, p50 ${Math.round(requests.p50_ms ?? 0)} ms, p95 ${Math.round(requests.p95_ms)} ms`
  return [
    `Version ${found.version}: database ${found.database.status}, Temporal ${found.temporal.status}, ${found.gateways.length} gateways.`,
    killSwitch.active
      ? `The kill switch is ACTIVE: ${killSwitch.reason ?? 'no reason given'}.`
      : 'New work is admitted.',
    `Nodes: ${nodes.online} online, ${nodes.draining} draining, ${nodes.offline} offline. Models: ${copies}.`,
    `Requests in the last ${seconds(requests.window_s)}: ${requests.requests}, ${requests.failed} failed${speed}.`,
    '',
    workTable(found.work),
    '',
    ...(found.attention.length > 0
      ? found.attention.map((one) => `${one.severity}: ${one.message}`)
      : ['Nothing needs attention.']),
  ].join('\n')
}
