import Type from 'typebox'
import * as eventFeedRepository from '../../../../../db/repositories/platform/event-feed.ts'
import { PlatformEventStreamQuery } from '../../../../../schemas/event.ts'
import { ALL } from '../../../../gateway/background/followers.ts'
import { HANDLED } from '../../../../http/reply.ts'
import { route } from '../../../../http/route.ts'
import { followEvents, placeOf } from '../../../builder/account/follow-events.ts'
import { presentPlatformEvent } from '../../../builder/account/present-event.ts'

/** The subject for all operators, who share one key. */
const OPERATORS = 'operators'

export const streamPlatformEvents = route({
  operationId: 'streamPlatformEvents',
  summary: 'Stream the events of all accounts as work ends, and the events of nodes',
  method: 'GET',
  path: '/admin/events/stream',
  auth: 'operations-key',
  query: PlatformEventStreamQuery,
  headers: Type.Object({ 'last-event-id': PlatformEventStreamQuery.properties.after }),
  success: {
    status: 200,
    contentType: 'text/event-stream',
    description:
      "Server-sent events, named by their type; the data is the event as in an account's list, with its `account_id`.",
  },
  errors: ['rate_limited', 'validation_failed'],

  async handler({ query, headers, res, signal }, services) {
    const { type, account_id: accountId } = query
    const after = placeOf(query, headers)
    using watch = services.eventFollowers.follow(OPERATORS, accountId ?? ALL)
    await followEvents(services, {
      read: (range) => eventFeedRepository.listPlatformEventsSince(services.db, accountId, range),
      type,
      present: presentPlatformEvent,
      after,
      watch,
      res,
      signal,
    })
    return HANDLED
  },
})
