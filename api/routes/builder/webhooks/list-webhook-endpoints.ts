import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { PageQuery } from '../../../../schemas/common.ts'
import { WebhookEndpointList } from '../../../../schemas/webhook.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentWebhookEndpoint } from './present.ts'

export const listWebhookEndpoints = route({
  operationId: 'listWebhookEndpoints',
  summary: 'List your destinations, newest first, redacted',
  method: 'GET',
  path: '/webhook-endpoints',
  auth: 'api-key',
  preview: 'webhooks',
  query: PageQuery,
  success: { status: 200, schema: WebhookEndpointList },

  async handler({ caller, query }, { db }) {
    const page = await readPage(query, ['webhook-endpoints', caller.accountId], (request) =>
      webhookEndpointRepository.listWebhookEndpoints(db, caller.accountId, request),
    )
    return { webhook_endpoints: page.items.map(presentWebhookEndpoint), next_cursor: page.next_cursor }
  },
})
