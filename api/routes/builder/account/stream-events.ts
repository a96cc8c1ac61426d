import Type from 'typebox'
import * as eventFeedRepository from '../../../../db/repositories/platform/event-feed.ts'
import { EventStreamQuery } from '../../../../schemas/event.ts'
import { HANDLED } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { followEvents, placeOf } from './follow-events.ts'
import { presentEvent } from './present-event.ts'

export const streamEvents = route({
  operationId: 'streamEvents',
  summary: "Stream the account's events as work ends",
  method: 'GET',
  path: '/events/stream',
  auth: 'api-key',
  query: EventStreamQuery,
  headers: Type.Object({ 'last-event-id': EventStreamQuery.properties.after }),
  success: {
    status: 200,
    contentType: 'text/event-stream',
    description: 'Server-sent events, named by their type; the data is the event as in the list.',
  },
  errors: ['rate_limited', 'validation_failed'],

  async handler({ caller, query, headers, res, signal }, services) {
    const { accountId } = caller
    using access = services.keyStreams.watch(caller)
    const after = placeOf(query, headers)
    using watch = services.eventFollowers.follow(accountId, accountId)
    await followEvents(services, {
      read: (range) => eventFeedRepository.listEventsSince(services.db, accountId, range),
      type: query.type,
      present: presentEvent,
      after,
      watch,
      res,
      signal,
      ended: access.ended,
    })
    return HANDLED
  },
})
