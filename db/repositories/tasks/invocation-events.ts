import { eventForm } from '../webhooks/events.ts'
import { payloadOf } from './entry.ts'

const ACCOUNT = '<account>'

/** The payload of an invocation's event as a `format` pattern, in which the account is the fourth value. */
const patternOf = (status: 'completed' | 'failed'): string =>
  eventForm({
    accountId: ACCOUNT,
    type: `invocation.${status}`,
    resource: { object: 'invocation', status },
    resourceUrl: (id) => `/api/builder/v1/invocations/${id}`,
  }).payload.replace(ACCOUNT, '%4$s')

/**
 * Returns the statement that inserts the terminal events of invocations that have just ended. `ended` names the rows:
 * the invocation's `id`, its `account_id`, the time `at` of its end, and the `status` of its task.
 */
export const insertInvocationEvents = (ended: string): string => `
    insert into event (id, account_id, type, resource_id, payload, created_at)
    select event_id, account_id, 'invocation.' || result, id, ${payloadOf('pattern', 'account_id')}, at
    from (
      select uuidv7() as event_id, id, account_id, at,
        case status when 'succeeded' then 'completed' else 'failed' end as result,
        case status when 'succeeded' then '${patternOf('completed')}' else '${patternOf('failed')}' end as pattern
      from ${ended}
    ) as new_event
    on conflict (resource_id, type) do nothing`
