import type { Command } from 'commander'
import type { Me } from '../../schemas/account.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { cliConfig } from '../cli-config.ts'
import { findPlatform, type GlobalOptions, type Platform } from '../platform.ts'
import { print } from '../print.ts'

/** Shows the platform, account and key that commands use. */
export function whoamiCommand(whoami: Command): void {
  whoami.action(
    asAccount(async ({ h, json }: AccountContext, _options: object) => {
      const platform = findPlatform(whoami.optsWithGlobals<GlobalOptions>(), cliConfig())
      const me = await h.me()
      print({ json }, { ...me, from: placesOf(platform) }, formatIdentity(me, platform))
    }),
  )
}

const placesOf = ({ baseUrl, baseUrlFrom, profile, apiKey, operationsKey }: Platform) => ({
  base_url: baseUrl,
  base_url_from: baseUrlFrom,
  profile: profile ?? null,
  api_key_from: apiKey?.from ?? null,
  operations_key_from: operationsKey?.from ?? null,
})

function storageText({ limit_bytes, stored_bytes, under_way_bytes }: NonNullable<Me['storage']>): string {
  const limit = limit_bytes === null ? 'no limit' : `of ${gigabytes(limit_bytes)}`
  return `${gigabytes(stored_bytes)} stored and ${gigabytes(under_way_bytes)} under way, ${limit}`
}

const gigabytes = (count: number): string => `${Number((count / 1e9).toFixed(3))} GB`

function formatIdentity(me: Me, { baseUrl, baseUrlFrom, apiKey, operationsKey }: Platform): string {
  const { account, role, key, quotas, storage, balance_credits: balance, features } = me
  const limits = key.limits === null ? 'no limits' : `limits ${JSON.stringify(key.limits)}`
  const expiry = key.expires_at === null ? 'never expires' : `expires ${key.expires_at}`
  const operations = operationsKey ? `known, from ${operationsKey.from}` : 'not known'
  const rows = [
    ['Platform', `${baseUrl} (from ${baseUrlFrom})`],
    ['Account', `${account.name} (${account.id})`],
    ['Key', `${key.name} ...${key.hint}, role ${role}, ${limits}, ${expiry} (from ${apiKey?.from})`],
    ['Operations key', operations],
    ['Quotas', `${quotas.training} open runs and merges, ${quotas.tasks} waiting tasks`],
    ['Storage', storage ? storageText(storage) : 'not reported by this platform'],
    ['Balance', `${balance} credits`],
    ['Features', features.join(', ') || 'none'],
  ] as const
  return rows.map(([label, value]) => `${label.padEnd(14)}  ${value}`).join('\n')
}
