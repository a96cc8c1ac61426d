import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../../db/keyset.ts'
import { listAccounts as readAccounts } from '../../../../../db/repositories/platform/accounts.ts'
import { Account } from '../../../../../schemas/admin.ts'
import { Nullable, PageQuery } from '../../../../../schemas/common.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'

const SCOPE = cursorScope('accounts')

export const listAccounts = route({
  operationId: 'listAccounts',
  summary: 'List accounts',
  method: 'GET',
  path: '/admin/accounts',
  auth: 'operations-key',
  query: PageQuery,
  success: {
    status: 200,
    schema: Type.Object({ accounts: Type.Array(Account), next_cursor: Nullable(Type.String()) }),
  },

  async handler({ query: { limit = 20, cursor } }, { db }) {
    const before = cursor === undefined ? undefined : decodeCursor(SCOPE, cursor)
    const rows = await readAccounts(db, { before, limit: limit + 1 })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      accounts: page.map(presentAccount),
      next_cursor: last && rows.length > limit ? encodeCursor(SCOPE, last.id) : null,
    }
  },
})
