import type { Static } from 'typebox'
import * as usageReportRepository from '../../../../db/repositories/platform/usage-reports.ts'
import { microToCredits } from '../../../../domain/money.ts'
import { AccountUsage, UsageQuery } from '../../../../schemas/account.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { periodOf } from './period.ts'

const DAY_MS = 86_400_000
/** The period in days when the query does not set one. */
const DEFAULT_PERIOD_DAYS = 30

export const getUsage = route({
  operationId: 'getUsage',
  summary: "Sum up the account's requests, tokens and costs by day, endpoint, key or model",
  method: 'GET',
  path: '/usage',
  auth: 'api-key',
  query: UsageQuery,
  success: { status: 200, schema: AccountUsage },
  isLong: true,

  handler: ({ caller: { accountId }, query }, services) => readAccountUsage(services, accountId, query),
})

/** Returns an account's usage; the period defaults to the last 30 days. */
export async function readAccountUsage(
  { db, now }: Pick<Services, 'db' | 'now'>,
  accountId: string,
  query: Static<typeof UsageQuery>,
): Promise<AccountUsage> {
  const { group = 'day' } = query
  const period = usagePeriod(query, now())
  const rows = await usageReportRepository.readUsage(db, accountId, { ...period, group })
  return { group, ...presentUsage(period, rows) }
}

/** Returns a query's period, or the last 30 days. */
export function usagePeriod(query: { from?: string; to?: string }, now: Date): { from: Date; until: Date } {
  const period = periodOf(query)
  const until = period.until ?? new Date(now.getTime() + DAY_MS)
  return { until, from: period.from ?? startOfDay(until.getTime() - DEFAULT_PERIOD_DAYS * DAY_MS) }
}

export const presentUsage = (
  { from, until }: { from: Date; until: Date },
  rows: readonly usageReportRepository.UsageRow[],
): Omit<AccountUsage, 'group'> => ({
  from: from.toISOString(),
  to: until.toISOString(),
  rows: rows.map(({ cost_micro, ...row }) => ({
    ...row,
    cost_micro,
    cost_credits: microToCredits(cost_micro),
  })),
})

const startOfDay = (ms: number): Date => new Date(Math.max(0, ms - (ms % DAY_MS)))
