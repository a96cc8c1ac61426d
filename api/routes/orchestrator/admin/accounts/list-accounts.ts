import * as accountViewRepository from '../../../../../db/repositories/platform/account-views.ts'
import { AccountListQuery, AccountView } from '../../../../../schemas/admin.ts'
import { pageOf } from '../../../../../schemas/common.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'
import { presentAccountView } from '../present.ts'

export const listAccounts = route({
  operationId: 'listAccounts',
  summary: 'List accounts with their resources and open work, newest first',
  method: 'GET',
  path: '/admin/accounts',
  auth: 'operations-key',
  query: AccountListQuery,
  success: {
    status: 200,
    schema: pageOf('accounts', AccountView),
  },

  async handler({ query }, { db }) {
    const { items, next_cursor } = await readPage(query, ['accounts', query.name], (page) =>
      accountViewRepository.listAccountViews(db, { ...page, name: query.name }),
    )
    return { accounts: items.map(presentAccountView), next_cursor }
  },
})
