import * as killSwitchRepository from '../../../../../db/repositories/platform/kill-switch.ts'
import { pageOf } from '../../../../../schemas/common.ts'
import { KillSwitchHistoryQuery, KillSwitchOrderView } from '../../../../../schemas/platform-views.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'

export const listKillSwitchHistory = route({
  operationId: 'listKillSwitchHistory',
  summary: 'List the kill switch orders, newest first',
  method: 'GET',
  path: '/admin/killswitch/history',
  auth: 'operations-key',
  query: KillSwitchHistoryQuery,
  success: { status: 200, schema: pageOf('orders', KillSwitchOrderView) },

  async handler({ query }, { db }) {
    const { items, next_cursor } = await readPage(query, ['killswitch'], (page) =>
      killSwitchRepository.listOrders(db, page),
    )
    const orders = items.map(({ id, at, action, actor, changes }) => ({
      entry_id: id,
      at: at.toISOString(),
      active: action === killSwitchRepository.ACTIVATED,
      reason: (changes['reason']?.to as string | null | undefined) ?? null,
      actor,
    }))
    return { orders, next_cursor }
  },
})
