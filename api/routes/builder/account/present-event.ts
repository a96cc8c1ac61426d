import type { FeedEventRow, PlatformEventRow } from '../../../../db/repositories/platform/event-feed.ts'
import type { FeedEvent, PlatformEvent } from '../../../../schemas/event.ts'

/** Presents an event. The payload is final, so it equals what webhooks receive. */
export function presentEvent({ id, type, payload, created_at }: FeedEventRow): FeedEvent {
  const { data } = JSON.parse(payload.toString()) as { data: Pick<FeedEvent, 'resource' | 'resource_url'> }
  return {
    id,
    type,
    created_at: created_at.toISOString(),
    resource: data.resource,
    resource_url: data.resource_url,
  }
}

/** Presents an event to operators. */
export function presentPlatformEvent({ payload, ...event }: PlatformEventRow): PlatformEvent {
  const { id, account_id, type, resource_id, created_at } = event
  if (payload) return { ...presentEvent({ ...event, payload }), account_id }
  return {
    id,
    type,
    created_at: created_at.toISOString(),
    account_id,
    resource: { id: resource_id, object: 'node', status: type.slice('node.'.length) },
    resource_url: `/api/v1/admin/nodes/${resource_id}`,
  }
}
