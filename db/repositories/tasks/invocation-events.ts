import { eventForm } from '../webhooks/events.ts'
import { payloadOf } from './entry.ts'

const ACCOUNT = '<account>'

/** The payload of an invocation's event as a pattern of `format`, in which the account is the fourth value. */
const patternOf = (status: 'completed' | 'failed'): string =>
  eventForm({
    accountId: ACCOUNT,
    type: `invocation.${status}`,
    resource: { object: 'invocation', status },
    resourceUrl: (id) => `/api/builder/v1/invocations/${id}`,
  }).payload.replace(ACCOUNT, '%4$s')

/**
 * Returns the statement that inserts the terminal events of invocations whose tasks have ended. `source` joins
 * `written`, the tasks, with the invocations, whose id is the column `id`.
 */
export const insertInvocationEvents = (source: string, id: string): string => `
    insert into event (id, account_id, type, resource_id, payload, created_at)
    select event_id, account_id, 'invocation.' || status, id, ${payloadOf('pattern', 'account_id')}, at
    from (
      select uuidv7() as event_id, ${id} as id, written.account_id, written.at,
        case written.status when 'succeeded' then 'completed' else 'failed' end as status,
        case written.status when 'succeeded' then '${patternOf('completed')}' else '${patternOf('failed')}' end as pattern
      from ${source}
      where written.status in ('succeeded', 'failed')
    ) as ended
    on conflict (resource_id, type) do nothing`
