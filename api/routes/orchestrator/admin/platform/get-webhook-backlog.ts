import * as backlogRepository from '../../../../../db/repositories/webhooks/backlog.ts'
import { WebhookBacklog, WebhookBacklogQuery } from '../../../../../schemas/platform-views.ts'
import { route } from '../../../../http/route.ts'

export const getWebhookBacklog = route({
  operationId: 'getWebhookBacklog',
  summary: 'Count the open webhook deliveries of all accounts, with the destinations that have the most',
  method: 'GET',
  path: '/admin/webhooks/backlog',
  preview: 'webhooks',
  auth: 'operations-key',
  query: WebhookBacklogQuery,
  success: { status: 200, schema: WebhookBacklog },

  async handler({ query: { limit = 20 } }, { db }) {
    const totals = await backlogRepository.countBacklog(db)
    const destinations = await backlogRepository.listBacklogged(db, limit)
    return {
      ...totals,
      destinations: destinations.map(({ oldest_at, next_attempt_at, ...destination }) => ({
        ...destination,
        oldest_at: oldest_at.toISOString(),
        next_attempt_at: next_attempt_at?.toISOString() ?? null,
      })),
    }
  },
})
