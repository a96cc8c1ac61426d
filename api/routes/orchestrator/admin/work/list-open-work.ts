import * as openItemRepository from '../../../../../db/repositories/platform/open-items.ts'
import { pageOf } from '../../../../../schemas/common.ts'
import { WorkItem, WorkQuery } from '../../../../../schemas/operations.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'
import { temporalLink } from '../../../../temporal-link.ts'

export const listOpenWork = route({
  operationId: 'listOpenWork',
  summary: 'List the open work of one kind, with its workflows, newest first',
  method: 'GET',
  path: '/admin/work',
  auth: 'operations-key',
  query: WorkQuery,
  success: { status: 200, schema: pageOf('work', WorkItem) },

  async handler({ query }, { db, config }) {
    const { kind, account_id: accountId, id } = query
    const { items, next_cursor } = await readPage(query, ['work', kind, accountId, id], (page) =>
      openItemRepository.listOpenItems(db, { ...page, kind, accountId, id }),
    )
    const work = items.map(({ created_at, ...item }) => ({
      kind,
      ...item,
      temporal_url: item.workflow_id === null ? null : temporalLink(config, item.workflow_id),
      created_at: created_at.toISOString(),
    }))
    return { work, next_cursor }
  },
})
