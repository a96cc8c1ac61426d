import { type Command, InvalidArgumentError, Option } from 'commander'
import type { CreateWebhookEndpoint, WebhookDelivery } from '../../schemas/webhook.ts'
import { filled, wholeNumber } from '../arguments.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { id } from '../ids.ts'
import { print, table } from '../print.ts'

interface CreateOptions {
  url: string
  events: CreateWebhookEndpoint['event_types']
}

interface DeliveryOptions {
  endpoint?: string
  status?: WebhookDelivery['status']
  limit: number
}

const STATUSES = ['pending', 'delivering', 'retrying', 'succeeded', 'failed', 'dead_lettered', 'cancelled']

/** Commands for webhook endpoints and deliveries; they require the platform feature `webhooks`. */
export function webhookCommands(webhooks: Command): void {
  webhooks
    .command('ls')
    .alias('list')
    .description('list webhook endpoints')
    .action(
      asAccount(async ({ h, json }) => {
        const list = await h.webhooks.list({ limit: 100 }).all()
        const rows = list.map((one) => [
          one.endpoint_id,
          one.name,
          one.url_origin,
          one.enabled ? one.verification_status : `disabled: ${one.disabled_reason ?? 'by you'}`,
          one.event_types.join(', '),
          one.verification_error?.message,
        ])
        print({ json }, list, table(['ENDPOINT', 'NAME', 'GOES TO', 'STATE', 'EVENTS', 'WHY'], rows))
      }),
    )

  webhooks
    .command('create <name>')
    .description('create a webhook endpoint; its signing secret is shown only once')
    .requiredOption('--url <url>', 'the target URL: https, port 443', filled)
    .requiredOption(
      '--events <list>',
      'comma-separated, such as training.run.completed,training.run.failed',
      events,
    )
    .action(
      asAccount(async ({ h, json }, name: string, { url, events: event_types }: CreateOptions) => {
        const made = await h.webhooks.create({ name, url, event_types })
        print(
          { json },
          made,
          `${made.secret}\n\nWebhook endpoint ${made.endpoint_id} is ${made.verification_status}. Save the secret now: it is not shown again. Verify signatures with \`npx hearth listen --secret\`.`,
        )
      }),
    )

  webhooks
    .command('test <endpoint_id>')
    .description('send a test event')
    .action(
      asAccount(async ({ h, json }, endpointId: string) => {
        const queued = await h.webhooks.test(id(endpointId))
        print({ json }, queued, `Delivery ${queued.delivery_id} is ${queued.status}.`)
      }),
    )

  webhooks
    .command('rm <endpoint_id>')
    .description('delete a webhook endpoint')
    .action(
      asAccount(async ({ h, json }, endpointId: string) => {
        await h.webhooks.delete(id(endpointId))
        print({ json }, { endpoint_id: endpointId, deleted: true }, `Deleted webhook endpoint ${endpointId}.`)
      }),
    )

  deliveryCommands(webhooks)
}

function deliveryCommands(webhooks: Command): void {
  webhooks
    .command('deliveries [delivery_id]')
    .description('list deliveries, newest first, or show one and its attempts')
    .option('--endpoint <id>', 'filter by webhook endpoint', id)
    .addOption(new Option('--status <status>', 'filter by status').choices(STATUSES))
    .option('--limit <n>', 'maximum number of deliveries', wholeNumber, 20)
    .action(asAccount(showDeliveries))

  webhooks
    .command('redeliver <delivery_id>')
    .description('send the event of a delivery again')
    .action(
      asAccount(async ({ h, json }, deliveryId: string) => {
        const made = await h.webhooks.redeliver(id(deliveryId))
        const how = made.replayed ? 'is already in progress' : 'is queued'
        print({ json }, made, `Delivery ${made.delivery_id} ${how}.`)
      }),
    )
}

async function showDeliveries(
  { h, json }: AccountContext,
  deliveryId: string | undefined,
  { endpoint, status, limit }: DeliveryOptions,
): Promise<void> {
  if (deliveryId !== undefined) {
    const one = await h.webhooks.getDelivery(id(deliveryId))
    const attempts = one.attempts.map((attempt) => [
      attempt.attempt,
      attempt.outcome,
      attempt.error_code,
      attempt.status_class,
      attempt.started_at,
      attempt.duration_ms,
    ])
    const headings = ['ATTEMPT', 'OUTCOME', 'ERROR', 'STATUS', 'STARTED', 'TOOK ms']
    return print({ json }, one, `${deliveryTable([one])}\n\n${table(headings, attempts)}`)
  }
  const query = {
    ...(endpoint !== undefined && { endpoint_id: endpoint }),
    ...(status && { status }),
    limit: Math.min(100, limit),
  }
  const list = await h.webhooks.deliveries(query).all(limit)
  print({ json }, list, deliveryTable(list))
}

const deliveryTable = (list: readonly WebhookDelivery[]): string =>
  table(
    ['DELIVERY', 'EVENT', 'STATUS', 'ATTEMPTS', 'NEXT', 'CREATED', 'ENDPOINT'],
    list.map((one) => [
      one.delivery_id,
      one.event_type,
      one.status,
      one.attempt_count,
      one.next_attempt_at,
      one.created_at,
      one.endpoint_id,
    ]),
  )

/** Checks only the form of the list: the platform knows which events exist and rejects others. */
function events(text: string): string[] {
  const list = text.split(',').map((one) => one.trim())
  if (list.every((one) => /^[a-z_.]+$/.test(one))) return list
  throw new InvalidArgumentError('Expected a list such as training.run.completed,training.run.failed.')
}
