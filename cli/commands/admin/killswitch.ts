import type { Command } from 'commander'
import type { KillSwitchStatus } from '../../../schemas/admin.ts'
import { filled } from '../../arguments.ts'
import { type Context, open } from '../../context.ts'
import { print } from '../../print.ts'

/** Commands that stop and resume the admission of new work. */
export function killSwitchCommands(killSwitch: Command): void {
  const printStatusOf = (context: Context, status: KillSwitchStatus) => {
    const { acknowledged, live } = status.gateways
    const state = status.active
      ? `ACTIVE since ${status.changed_at}: ${status.reason ?? 'no reason given'}. New work is rejected.`
      : 'Not active: new work is admitted.'
    print(context, status, `${state}\n${acknowledged} of ${live} gateways apply it.`)
  }
  killSwitch
    .command('activate')
    .description('reject all new work; admitted work continues')
    .requiredOption('--reason <text>', 'shown to every rejected caller', filled)
    .action(async ({ reason }: { reason: string }, command: Command) => {
      const context = open(command)
      const path = `/killswitch/activate?reason=${encodeURIComponent(reason)}`
      printStatusOf(context, await context.client.call('POST', path))
    })
  killSwitch
    .command('deactivate')
    .description('admit new work again')
    .option('--reason <text>', 'stored with the switch')
    .action(async ({ reason }: { reason?: string }, command: Command) => {
      const context = open(command)
      const query = reason ? `?reason=${encodeURIComponent(reason)}` : ''
      printStatusOf(context, await context.client.call('POST', `/killswitch/deactivate${query}`))
    })
  killSwitch
    .command('status')
    .description('show the state of the kill switch')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      printStatusOf(context, await context.client.call('GET', '/killswitch/status'))
    })
}
