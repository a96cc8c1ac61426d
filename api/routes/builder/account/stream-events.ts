import Type from 'typebox'
import { invalid } from '../../../../domain/errors.ts'
import { isUuidV7 } from '../../../../domain/uuid.ts'
import { EventStreamQuery } from '../../../../schemas/event.ts'
import { HANDLED } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { followEvents } from './follow-events.ts'

export const streamEvents = route({
  operationId: 'streamEvents',
  summary: 'Follow what ends for the account, as it does',
  method: 'GET',
  path: '/events/stream',
  auth: 'api-key',
  query: EventStreamQuery,
  headers: Type.Object({ 'last-event-id': EventStreamQuery.properties.after }),
  success: {
    status: 200,
    contentType: 'text/event-stream',
    description: 'Server-sent events, named by their type; the data is the event as the list has it.',
  },
  errors: ['rate_limited', 'validation_failed'],

  async handler({ caller: { accountId }, query: { type, after }, headers, res, signal }, services) {
    // A browser that comes back repeats the first address, and says in the header how far it came.
    const last = headers['last-event-id']
    const place = last ?? after
    if (place !== undefined && !isUuidV7(place)) {
      const loc = last === undefined ? ['query', 'after'] : ['header', 'Last-Event-ID']
      throw invalid(loc, 'must be the id of an event')
    }
    using watch = services.eventFollowers.follow(accountId, accountId)
    await followEvents(services, {
      accountId,
      type,
      after: place,
      watch,
      res,
      signal,
    })
    return HANDLED
  },
})
