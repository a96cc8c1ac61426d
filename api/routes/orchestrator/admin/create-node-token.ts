import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import * as accountRepository from '../../../../db/repositories/platform/accounts.ts'
import { CreateNodeToken, NodeToken } from '../../../../schemas/admin.ts'
import { route } from '../../../http/route.ts'
import { accountNotFound } from './accounts/account.ts'

export const createNodeToken = route({
  operationId: 'createNodeToken',
  summary: 'Create a one-time token by which a machine joins the pool for an account',
  method: 'POST',
  path: '/admin/node-tokens',
  auth: 'operations-key',
  body: CreateNodeToken,
  success: { status: 201, schema: NodeToken },
  errors: ['not_found'],

  async handler({ body: { account_id, sharing = 'dedicated' } }, { db }) {
    if (!(await accountRepository.findAccount(db, account_id))) throw accountNotFound()
    const node_token = await nodeRepository.createNodeToken(db, { accountId: account_id, sharing })
    return { account_id, sharing, node_token }
  },
})
