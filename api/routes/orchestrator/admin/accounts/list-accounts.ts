import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { Account } from '../../../../../schemas/admin.ts'
import { PageQuery, pageOf } from '../../../../../schemas/common.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'

export const listAccounts = route({
  operationId: 'listAccounts',
  summary: 'List accounts',
  method: 'GET',
  path: '/admin/accounts',
  auth: 'operations-key',
  query: PageQuery,
  success: {
    status: 200,
    schema: pageOf('accounts', Account),
  },

  async handler({ query }, { db }) {
    const { items, next_cursor } = await readPage(query, ['accounts'], (page) =>
      accountRepository.listAccounts(db, page),
    )
    return { accounts: items.map(presentAccount), next_cursor }
  },
})
