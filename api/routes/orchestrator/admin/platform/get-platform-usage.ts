import * as usageReportRepository from '../../../../../db/repositories/platform/usage-reports.ts'
import { PlatformUsage, PlatformUsageQuery } from '../../../../../schemas/platform-views.ts'
import { route } from '../../../../http/route.ts'
import { presentUsage, usagePeriod } from '../../../builder/account/get-usage.ts'

export const getPlatformUsage = route({
  operationId: 'getPlatformUsage',
  summary: 'Sum up the requests, tokens and costs of all accounts by day, account, model or node',
  method: 'GET',
  path: '/admin/usage',
  auth: 'operations-key',
  query: PlatformUsageQuery,
  success: { status: 200, schema: PlatformUsage },

  async handler({ query }, { db, now }) {
    const { group = 'day' } = query
    const period = usagePeriod(query, now())
    const rows = await usageReportRepository.readPlatformUsage(db, { ...period, group })
    return { group, ...presentUsage(period, rows) }
  },
})
