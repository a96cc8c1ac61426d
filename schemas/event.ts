import Type, { type Static } from 'typebox'
import { PageQuery, pageOf, Timestamp, Uuid, valuesOf, Vocabulary } from './common.ts'
import { TEST_EVENT, VERIFICATION_EVENT, WebhookEventType } from './webhook.ts'

/** Succeeded tasks appear only in the task list. */
const fed = valuesOf(WebhookEventType).filter((type) => type !== 'inference.task.succeeded')
const SCALED_EVENT = 'endpoint.scaled'
const FeedType = Vocabulary(...fed, SCALED_EVENT, VERIFICATION_EVENT, TEST_EVENT)

/** An event, with the same body that webhooks receive. */
const FeedEvent = Type.Object(
  {
    id: Uuid,
    type: Type.String(),
    created_at: Timestamp,
    resource: Type.Object({ id: Type.String(), object: Type.String(), status: Type.String() }),
    resource_url: Type.String({ description: 'The path of the resource' }),
  },
  { $id: 'FeedEvent' },
)
export type FeedEvent = Static<typeof FeedEvent>

export const EventQuery = Type.Object({
  ...PageQuery.properties,
  type: Type.Optional(FeedType),
  since: Type.Optional({ ...Timestamp, description: 'Events at this time or later' }),
  until: Type.Optional({ ...Timestamp, description: 'Events before this time' }),
})

export const EventStreamQuery = Type.Object({
  type: Type.Optional(FeedType),
  after: Type.Optional({
    ...Uuid,
    description: 'The id of an event after which the stream continues; without one, the stream starts now',
  }),
})

const NodeEventType = Vocabulary(
  'node.joined',
  'node.connected',
  'node.disconnected',
  'node.draining',
  'node.resumed',
  'node.removed',
)

/** An event of an account or a node. For a node, `status` says what happened to it. */
export type PlatformEvent = FeedEvent & { account_id: string }

export const PlatformEventStreamQuery = Type.Object({
  type: Type.Optional(Vocabulary(...valuesOf(FeedType), ...valuesOf(NodeEventType))),
  account_id: Type.Optional({ ...Uuid, description: 'Only events of this account and its nodes' }),
  after: EventStreamQuery.properties.after,
})

export const EventList = pageOf('events', FeedEvent)
