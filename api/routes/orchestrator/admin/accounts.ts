import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../db/keyset.ts'
import {
  createAccount as insertAccount,
  findAccount,
  listAccounts as readAccounts,
  updateAccount as changeAccount,
} from '../../../../db/repositories/platform/accounts.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Account, CreateAccount, UpdateAccount } from '../../../../schemas/admin.ts'
import { Nullable, PageQuery, Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'
import { presentAccount } from './present.ts'

const SCOPE = cursorScope('accounts')
const params = Type.Object({ account_id: Uuid })
/** What a route answers for an account that does not exist. */
export const noAccount = (): ApiError => new ApiError('not_found', 'there is no account with this id')

export const createAccount = route({
  operationId: 'createAccount',
  summary: 'Create an account',
  method: 'POST',
  path: '/admin/accounts',
  auth: 'operations-key',
  body: CreateAccount,
  success: { status: 201, schema: Account },

  async handler({ body: { name, training_quota, task_quota } }, { db }) {
    const row = await insertAccount(db, { name, trainingQuota: training_quota, taskQuota: task_quota })
    return presentAccount(row)
  },
})

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

export const getAccount = route({
  operationId: 'getAccount',
  summary: 'Read an account',
  method: 'GET',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Account },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    const row = await findAccount(db, account_id)
    if (!row) throw noAccount()
    return presentAccount(row)
  },
})

export const updateAccount = route({
  operationId: 'updateAccount',
  summary: 'Rename an account, set its quotas or the closed hub repositories it may use',
  method: 'PATCH',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  body: UpdateAccount,
  success: { status: 200, schema: Account },
  errors: ['not_found'],

  async handler({ params: { account_id }, body: { name, training_quota, task_quota, hub_repos } }, { db }) {
    const change = { name, trainingQuota: training_quota, taskQuota: task_quota, hubRepos: hub_repos }
    const row = await changeAccount(db, account_id, change)
    if (!row) throw noAccount()
    return presentAccount(row)
  },
})
