import { type Command, Option } from 'commander'
import type { CreateApiKey, KeyLimits, ServiceTier } from '../../../schemas/api-key.ts'
import { amount, nameList, timeOf, toolList, wholeNumber } from '../../arguments.ts'
import { id } from '../../ids.ts'
import { openKeyring } from '../../keyring.ts'
import { print, printStatus, table } from '../../print.ts'
import { warningOfUnmatched } from '../../unmatched-tools.ts'

interface KeyOptions {
  name: string
  role: NonNullable<CreateApiKey['role']>
  tools?: string[]
  expires?: string
  models?: string[]
  requestsPerMinute?: number
  tokensPerMinute?: number
  budget?: number
  serviceTier?: ServiceTier
}

/** Commands for API keys. A key's text is shown only once, when it's created. */
export function keyCommands(keys: Command): void {
  keys
    .command('create [account_id]')
    .description('create a key for your account; operators can name any account')
    .option('--name <name>', 'what the key is for', 'cli')
    .addOption(
      new Option(
        '--role <role>',
        'viewer reads, operator also creates and infers, admin does everything; an account’s first key is admin',
      )
        .choices(['viewer', 'operator', 'admin'])
        .default('operator'),
    )
    .option(
      '--tools <list>',
      'limit the key to these tools: comma-separated names, patterns such as sales-*, kind:llm or stability:stable',
      toolList,
    )
    .option(
      '--models <list>',
      'limit the key to these endpoints, on every route: comma-separated names or ids',
      nameList,
    )
    .option('--expires <time>', 'when the key expires: a date such as 2027-01-31, or a time', timeOf)
    .option('--requests-per-minute <n>', 'model requests per minute', wholeNumber)
    .option('--tokens-per-minute <n>', 'input and output tokens per minute', wholeNumber)
    .option('--budget <credits>', 'credits per month', amount)
    .addOption(
      new Option(
        '--service-tier <tier>',
        'the highest service tier of its requests; flex is for work that can wait',
      ).choices(['flex', 'default', 'priority']),
    )
    .action(async (accountId: string | undefined, options: KeyOptions, command: Command) => {
      const keyring = openKeyring(command, accountId)
      const { name, role, tools, expires } = options
      const limits = limitsOf(options)
      const key = await keyring.create({
        name,
        role,
        ...(tools && { tools }),
        ...(expires !== undefined && { expires_at: expires }),
        ...(limits && { limits }),
      })
      const limit = key.tools ? `, limited to ${key.tools.join(', ')}` : ''
      const first = key.role === role ? '' : ` (not ${role}: the first key of an account is always admin)`
      print(
        keyring,
        key,
        `${key.api_key}\n\nKey ${key.key_id}, role ${key.role}${first}${limit}. Save it now: only its hash is stored, so it is not shown again.`,
      )
      if (!key.tools) return
      const warning = await warningOfUnmatched(keyring.baseUrl, { ...key, tools: key.tools })
      if (warning) printStatus(`hearth: ${warning}`)
    })
  keys
    .command('list [account_id]')
    .alias('ls')
    .description('list keys, without the keys themselves')
    .action(async (accountId: string | undefined, _options: object, command: Command) => {
      const keyring = openKeyring(command, accountId)
      const list = await keyring.list()
      const rows = list.map((key) => [
        key.key_id,
        key.name,
        key.role,
        key.tools?.join(', ') ?? 'all',
        key.limits?.models?.join(', ') ?? 'all',
        ratesOf(key.limits),
        `...${key.hint}`,
        key.last_used_at,
        key.expires_at ?? 'never',
        key.revoked_at ?? 'live',
      ])
      const headings = [
        'KEY',
        'NAME',
        'ROLE',
        'TOOLS',
        'MODELS',
        'LIMITS',
        'KEY TEXT',
        'LAST USED',
        'EXPIRES',
        'REVOKED',
      ]
      print(keyring, list, table(headings, rows))
    })
  keys
    .command('revoke <key_id>')
    .alias('rm')
    .description('revoke a key; every gateway rejects it within two seconds')
    .action(async (keyId: string, _options: object, command: Command) => {
      const keyring = openKeyring(command, undefined)
      await keyring.revoke(id(keyId))
      print(keyring, { key_id: keyId, revoked: true }, `Revoked key ${keyId}.`)
    })
}

/** Describes a key's rate limits and budget. */
function ratesOf(limits: KeyLimits | null): string {
  const rates = [
    [limits?.requests_per_minute, 'requests/min'],
    [limits?.tokens_per_minute, 'tokens/min'],
    [limits?.budget_credits_per_month, 'credits/month'],
  ] as const
  const words = rates.flatMap(([rate, unit]) => (rate === undefined ? [] : `${rate} ${unit}`))
  if (limits?.service_tier) words.push(`tier ${limits.service_tier}`)
  return words.join(', ') || 'none'
}

function limitsOf({
  models,
  requestsPerMinute,
  tokensPerMinute,
  budget,
  serviceTier,
}: KeyOptions): KeyLimits | undefined {
  const limits: KeyLimits = {
    ...(models && { models }),
    ...(requestsPerMinute !== undefined && { requests_per_minute: requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokens_per_minute: tokensPerMinute }),
    ...(budget !== undefined && { budget_credits_per_month: budget }),
    ...(serviceTier && { service_tier: serviceTier }),
  }
  return Object.keys(limits).length > 0 ? limits : undefined
}
