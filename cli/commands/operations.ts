import { type Command, Option } from 'commander'
import type { KeptWarm, KillSwitchStatus, TaskAudit } from '../../schemas/admin.ts'
import type { Endpoint } from '../../schemas/endpoint.ts'
import { filled, wholeNumber } from '../arguments.ts'
import type { Context } from '../context.ts'
import { print, table } from '../print.ts'
import { id } from './accounts.ts'

type Open = (command: Command) => Context

/** Stops the admission of new work, and resumes it. */
export function killSwitchCommands(program: Command, open: Open): void {
  const killSwitch = program.command('killswitch').description('refuse all new work, or admit it again')
  const tell = (context: Context, status: KillSwitchStatus) => {
    const { acknowledged, live } = status.gateways
    const state = status.active
      ? `ACTIVE since ${status.changed_at}: ${status.reason ?? 'no reason given'}. New work is refused.`
      : 'Not active: new work is admitted.'
    print(context, status, `${state}\n${acknowledged} of ${live} gateways act on it.`)
  }
  killSwitch
    .command('activate')
    .description('refuse all new work; what is admitted goes on')
    .requiredOption('--reason <text>', 'shown to every caller that is refused', filled)
    .action(async ({ reason }: { reason: string }, command: Command) => {
      const context = open(command)
      const path = `/killswitch/activate?reason=${encodeURIComponent(reason)}`
      tell(context, await context.client.call('POST', path))
    })
  killSwitch
    .command('deactivate')
    .description('admit new work again')
    .option('--reason <text>', 'kept with the switch')
    .action(async ({ reason }: { reason?: string }, command: Command) => {
      const context = open(command)
      const query = reason ? `?reason=${encodeURIComponent(reason)}` : ''
      tell(context, await context.client.call('POST', `/killswitch/deactivate${query}`))
    })
  killSwitch
    .command('status')
    .description('show the switch')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      tell(context, await context.client.call('GET', '/killswitch/status'))
    })
}

/** Reviews public endpoints, and pins their models. */
export function endpointCommands(program: Command, open: Open): void {
  const endpoints = program.command('endpoints').description('review public endpoints, keep models loaded')
  endpoints
    .command('list')
    .description('list endpoints by review status: those that wait for a review, unless told otherwise')
    .addOption(
      new Option('--review-status <status>', 'of the endpoints')
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
    ['approve', 'list an endpoint for everybody'],
    ['reject', 'keep an endpoint to its owner'],
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
    .argument('[nodes]', 'how many', wholeNumber)
    .description(
      'keep the model loaded on so many nodes, 0 for none; without a number, show where it is kept',
    )
    .action(async (endpointId: string, nodes: number | undefined, _options: object, command: Command) => {
      const context = open(command)
      const path = `/endpoints/${id(endpointId)}/min-warm`
      const kept = await (nodes === undefined
        ? context.client.call<KeptWarm>('GET', path)
        : context.client.call<KeptWarm>('PUT', path, { min_warm: nodes }))
      const where = kept.nodes.length > 0 ? `: ${kept.nodes.join(', ')}` : ''
      const lines = [`${kept.name} is kept by ${kept.nodes.length} of ${kept.min_warm} nodes${where}.`]
      if (kept.missing !== null) lines.push(`Why no more: ${kept.missing}.`)
      print(context, kept, lines.join('\n'))
    })
}

/** Shows the ledger entries of a task. */
export function auditCommands(program: Command, open: Open): void {
  program
    .command('audit <task_id>')
    .description('show the ledger of a task and the memory that it was given')
    .action(async (taskId: string, _options: object, command: Command) => {
      const context = open(command)
      const audit = await context.client.call<TaskAudit>('GET', `/audit/task/${id(taskId)}`)
      const rows = audit.entries.map((entry) => [
        entry.created_at,
        entry.kind,
        entry.purse,
        entry.amount_micro,
      ])
      const sum = `Task ${audit.status}; the entries sum to ${audit.sums.total_micro}.`
      const { memory } = audit
      const why = memory?.reason ? ` (${memory.reason})` : ''
      const given = memory
        ? `\nMemory ${memory.outcome}${why}: snapshot ${memory.snapshot_id ?? 'none'}.`
        : '\nNo memory was asked for: no grant, memory switched off, or no language model.'
      print(context, audit, `${table(['TIME', 'KIND', 'PURSE', 'MICRO-CREDITS'], rows)}\n${sum}${given}`)
    })
}
