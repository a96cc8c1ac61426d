import * as eventFeedRepository from '../../../../db/repositories/platform/event-feed.ts'
import { EventList, EventQuery } from '../../../../schemas/event.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentEvent } from './present-event.ts'

export const listEvents = route({
  operationId: 'listEvents',
  summary: "List the account's ended work: runs, merges, invocations, and failed tasks, newest first",
  method: 'GET',
  path: '/events',
  auth: 'api-key',
  query: EventQuery,
  success: { status: 200, schema: EventList },

  async handler({ caller: { accountId }, query }, { db }) {
    const { type, since, until } = query
    const page = await readPage(query, ['events', accountId, type, since, until], (request) =>
      eventFeedRepository.listEvents(db, accountId, {
        ...request,
        type,
        since: since === undefined ? undefined : new Date(since),
        until: until === undefined ? undefined : new Date(until),
      }),
    )
    return { events: page.items.map(presentEvent), next_cursor: page.next_cursor }
  },
})
