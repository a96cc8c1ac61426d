import { type Command, Option } from 'commander'
import type { Endpoint, EndpointQuery, UpdateEndpoint } from '../../../schemas/endpoint.ts'
import { amount, filled, wholeNumber } from '../../arguments.ts'
import { asAccount } from '../../as-account.ts'
import { usageError } from '../../cli-error.ts'
import { endpointName } from '../../endpoint-name.ts'
import { id } from '../../ids.ts'
import { print, table } from '../../print.ts'

interface ListingOptions {
  displayName?: string
  description?: string
  price?: number
}

interface CreateOptions extends ListingOptions {
  run: string
  serveAs?: Endpoint['serve_as']
}

interface ListOptions {
  search?: string
  source?: NonNullable<EndpointQuery['source']>
  all?: boolean
  limit: number
}

/** Commands for endpoints. */
export function endpointCommands(endpoints: Command): void {
  endpoints
    .command('create')
    .argument(
      '<name>',
      'unique across accounts; stays reserved for your account after a deletion',
      endpointName,
    )
    .description('serve the model of a completed run or merge')
    .requiredOption('--run <id>', 'the run', id)
    .option('--display-name <text>', 'display name', filled)
    .option('--description <text>', 'what the endpoint does', filled)
    .option('--price <usd>', 'price per request', amount)
    .addOption(
      new Option(
        '--serve-as <form>',
        'adapter: share the server of the base; merged: use a server of its own (default: adapter, where possible)',
      ).choices(['adapter', 'merged']),
    )
    .action(
      asAccount(async ({ h, json }, name: string, { run, serveAs, ...options }: CreateOptions) => {
        const as = serveAs && { serve_as: serveAs }
        const endpoint = await h.runs.register(run, { name, ...as, ...listingOf(options) })
        const input = JSON.stringify(endpoint.example_input)
        const example = input === '{}' ? "-d '{...}'" : `-d '${input}'`
        print(
          { json },
          endpoint,
          `Endpoint ${endpoint.name} (${endpoint.endpoint_id}) is ${endpoint.status}.${servedAs(endpoint)}\nTry it: npx hearth infer ${endpoint.name} ${example}`,
        )
      }),
    )

  endpoints
    .command('ls')
    .description('list your endpoints and how warm their models are')
    .option('--all', 'include public endpoints of other accounts')
    .option('--search <text>', 'search names and descriptions', filled)
    .addOption(new Option('--source <source>', 'filter by source').choices(['catalog', 'trained']))
    .option('--limit <n>', 'maximum number of endpoints', wholeNumber, 50)
    .action(
      asAccount(async ({ h, json }, { search, source, all, limit }: ListOptions) => {
        const query: EndpointQuery = {
          ...(!all && { owner: 'me' }),
          ...(search !== undefined && { search }),
          ...(source && { source }),
          include_readiness: true,
          limit: Math.min(100, limit),
        }
        const list = await h.endpoints.list(query).all(limit)
        const rows = list.map((one) => [
          one.name,
          one.endpoint_id,
          one.task_type,
          one.status,
          one.readiness,
          one.visibility,
          one.price_per_request,
          one.total_requests,
          one.last_used_at,
        ])
        const headings = [
          'NAME',
          'ENDPOINT',
          'TASK',
          'STATUS',
          'MODEL IS',
          'SEEN BY',
          'USD',
          'REQUESTS',
          'LAST USED',
        ]
        print({ json }, list, table(headings, rows))
      }),
    )

  endpoints
    .command('show <endpoint>')
    .alias('get')
    .description('show an endpoint with its schemas and examples, by name or id')
    .action(
      asAccount(async ({ h, json }, given: string) => {
        const endpoint = await h.endpoints.get(given)
        print({ json }, endpoint, formatEndpoint(endpoint))
      }),
    )

  endpoints
    .command('update <endpoint>')
    .description(
      'change the price, display name or description of an endpoint; a public endpoint is reviewed again',
    )
    .option('--display-name <text>', 'display name', filled)
    .option('--description <text>', 'what the endpoint does', filled)
    .option('--price <usd>', 'price per request, from the next request on', amount)
    .action(
      asAccount(async ({ h, json }, given: string, options: ListingOptions) => {
        const change = listingOf(options)
        if (Object.keys(change).length === 0)
          throw usageError('nothing to change: pass --price, --display-name or --description')
        const endpoint = await h.endpoints.update(given, change)
        const review = endpoint.review_status === 'pending_review' ? ' It is waiting for review.' : ''
        const words = `${endpoint.name} costs ${endpoint.price_per_request} USD per request.${review}`
        print({ json }, endpoint, words)
      }),
    )

  for (const [verb, status, description] of [
    ['pause', 'paused', 'reject requests to an endpoint until it is resumed'],
    ['resume', 'active', 'accept requests to a paused endpoint again'],
  ] as const) {
    endpoints
      .command(`${verb} <endpoint>`)
      .description(description)
      .action(
        asAccount(async ({ h, json }, given: string) => {
          const endpoint = await h.endpoints.update(given, { status })
          print({ json }, endpoint, `${endpoint.name} is ${endpoint.status}.`)
        }),
      )
  }

  endpoints
    .command('rm <endpoint>')
    .description('delete an endpoint; only your account can use its name again')
    .action(
      asAccount(async ({ h, json }, given: string) => {
        await h.endpoints.delete(given)
        print({ json }, { endpoint: given, deleted: true }, `Deleted endpoint ${given}.`)
      }),
    )
}

const listingOf = ({
  displayName,
  description,
  price,
}: ListingOptions): Pick<UpdateEndpoint, 'display_name' | 'description' | 'price_per_request'> => ({
  ...(displayName !== undefined && { display_name: displayName }),
  ...(description !== undefined && { description }),
  ...(price !== undefined && { price_per_request: price }),
})

/** Explains how a fine-tuned model is served; empty for other models. */
function servedAs({ serve_as, base_version_id, merged_because }: Endpoint): string {
  if (serve_as === 'adapter') return `\nIt shares the server of its base, the version ${base_version_id}.`
  return merged_because ? `\nIt has a server of its own, because ${merged_because}.` : ''
}

function formatEndpoint(endpoint: Endpoint): string {
  const rows = [
    [
      'Endpoint',
      `${endpoint.name} (${endpoint.endpoint_id}), ${endpoint.status}, seen by ${endpoint.visibility}`,
    ],
    ['About', endpoint.description || endpoint.display_name],
    ['Task', endpoint.task_type],
    ['Version', endpoint.version_id],
    ['Price', `${endpoint.price_per_request} USD, ${endpoint.total_requests} requests so far`],
    ['Input', JSON.stringify(endpoint.input_schema)],
    ['Example', JSON.stringify(endpoint.example_input)],
    ['Output', JSON.stringify(endpoint.output_schema)],
  ] as const
  return rows.flatMap(([label, value]) => (value ? [`${label.padEnd(8)}  ${value}`] : [])).join('\n')
}
