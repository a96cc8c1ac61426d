import type { FedEvent } from '../../../../db/repositories/platform/event-feed.ts'
import type { FeedEvent } from '../../../../schemas/event.ts'

/** The payload is final, so it is shown as webhooks get it. */
export function presentEvent({ id, type, payload, created_at }: FedEvent): FeedEvent {
  const { data } = JSON.parse(payload.toString()) as { data: Pick<FeedEvent, 'resource' | 'resource_url'> }
  return {
    id,
    type,
    created_at: created_at.toISOString(),
    resource: data.resource,
    resource_url: data.resource_url,
  }
}
