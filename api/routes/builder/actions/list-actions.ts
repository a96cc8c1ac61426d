import * as actionRepository from '../../../../db/repositories/actions/actions.ts'
import { type Action, ActionList, ActionQuery } from '../../../../schemas/action.ts'
import { allowsAction } from '../../../actions/limits.ts'
import { OPERATION_ACTIONS } from '../../../actions/operation-actions.ts'
import { presentEndpointAction, presentOperationAction } from '../../../actions/present.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'

interface ActionEntry {
  id: string
  action: Action
}

export const listActions = route({
  operationId: 'listActions',
  summary: 'List the actions that this account may invoke: endpoints, newest first, then platform operations',
  method: 'GET',
  path: '/actions',
  auth: 'api-key',
  forLimitedKeys: true,
  query: ActionQuery,
  success: { status: 200, schema: ActionList },
  isLong: true,

  async handler({ caller, query }, services) {
    const { db, config } = services
    const { accountId } = caller
    const { kind, visibility } = query
    const page = await readPage<ActionEntry>(
      query,
      ['actions', accountId, kind, visibility],
      async (request) => {
        const { limit, before } = request
        const rows =
          kind === 'operation'
            ? []
            : await actionRepository.listInvocable(db, accountId, { ...request, kind, visibility })
        const endpoints = rows.map((row) => ({
          id: row.id,
          action: presentEndpointAction(row, { accountId, config }),
        }))
        const operations = operationsOf(query).filter(({ id }) => before === undefined || id < before)
        return [...endpoints, ...operations].slice(0, limit)
      },
    )
    const listed = page.items.map(({ action }) => action)
    const isAllowed = await Promise.all(listed.map(({ slug }) => allowsAction(services, caller, slug)))
    return { actions: listed.filter((_, i) => isAllowed[i]), next_cursor: page.next_cursor }
  },
})

/** The operations' ids only order the list; they are older than the id of any endpoint. */
const OPERATIONS: readonly ActionEntry[] = OPERATION_ACTIONS.map((operation, i) => ({
  id: `00000000-0000-7000-8000-${String(OPERATION_ACTIONS.length - i).padStart(12, '0')}`,
  action: presentOperationAction(operation),
}))

/** Every account has access to the operations, so they count as public. */
const operationsOf = ({ kind = 'operation', visibility = 'public' }: ActionQuery): readonly ActionEntry[] =>
  kind === 'operation' && visibility === 'public' ? OPERATIONS : []
