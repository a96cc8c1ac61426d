import { type Command, Option } from 'commander'
import type { KeptWarm } from '../../../schemas/admin.ts'
import type { Endpoint } from '../../../schemas/endpoint.ts'
import { wholeNumber } from '../../arguments.ts'
import { open } from '../../context.ts'
import { id } from '../../ids.ts'
import { print, table } from '../../print.ts'

/** Commands with which operators review public endpoints and pin their models. */
export function reviewCommands(endpoints: Command): void {
  endpoints
    .command('list')
    .description('operators: list endpoints by review status')
    .addOption(
      new Option('--review-status <status>', 'filter by review status')
        .choices(['active', 'pending_review', 'approved', 'rejected'])
        .default('pending_review'),
    )
    .action(async ({ reviewStatus }: { reviewStatus: string }, command: Command) => {
      const context = open(command)
      const path = `/endpoints?review_status=${encodeURIComponent(reviewStatus)}`
      const list = await context.client.all<Endpoint & { account_id: string }>(path, 'endpoints')
      const rows = list.map((one) => [
        one.endpoint_id,
        one.name,
        one.display_name,
        one.task_type,
        one.price_per_request,
        one.account_id,
      ])
      print(context, list, table(['ENDPOINT', 'NAME', 'DISPLAY NAME', 'TASK', 'USD', 'ACCOUNT'], rows))
    })

  for (const [verb, description] of [
    ['approve', 'operators: make an endpoint public'],
    ['reject', 'operators: keep an endpoint private to its owner'],
  ] as const) {
    endpoints
      .command(`${verb} <endpoint_id>`)
      .description(description)
      .option('--note <text>', 'shown to the owner')
      .action(async (endpointId: string, { note }: { note?: string }, command: Command) => {
        const context = open(command)
        const reviewed = await context.client.call<Endpoint>('POST', `/endpoints/${id(endpointId)}:${verb}`, {
          ...(note !== undefined && { note }),
        })
        print(context, reviewed, `${reviewed.name} is ${reviewed.review_status}.`)
      })
  }

  endpoints
    .command('min-warm <endpoint_id>')
    .alias('warm')
    .argument('[nodes]', 'number of nodes', wholeNumber)
    .description(
      'operators: keep the model loaded on this many nodes, 0 for none; without a number, show the nodes',
    )
    .action(async (endpointId: string, nodes: number | undefined, _options: object, command: Command) => {
      const context = open(command)
      const path = `/endpoints/${id(endpointId)}/min-warm`
      const kept = await (nodes === undefined
        ? context.client.call<KeptWarm>('GET', path)
        : context.client.call<KeptWarm>('PUT', path, { min_warm: nodes }))
      const where = kept.nodes.length > 0 ? `: ${kept.nodes.join(', ')}` : ''
      const lines = [
        `Operators keep ${kept.name} on ${kept.min_warm} nodes; its model is pinned on ${kept.nodes.length}${where}.`,
      ]
      if (kept.missing !== null) lines.push(`Why fewer: ${kept.missing}.`)
      print(context, kept, lines.join('\n'))
    })
}
