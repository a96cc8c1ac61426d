import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import * as accountRepository from '../../../../db/repositories/platform/accounts.ts'
import { CreateNodeToken, NodeToken } from '../../../../schemas/admin.ts'
import { audit } from '../../../audit.ts'
import { route } from '../../../http/route.ts'
import { accountNotFound } from './accounts/account.ts'

export const createNodeToken = route({
  operationId: 'createNodeToken',
  summary: 'Create a one-time token with which a machine joins the pool for an account',
  method: 'POST',
  path: '/admin/node-tokens',
  auth: 'operations-key',
  body: CreateNodeToken,
  success: { status: 201, schema: NodeToken },
  errors: ['not_found'],

  async handler({ body: { account_id, sharing = 'dedicated' } }, { db }) {
    if (!(await accountRepository.findAccount(db, account_id))) throw accountNotFound()
    const node_token = await db.transaction().execute(async (trx) => {
      const subject = { kind: 'account', id: account_id }
      await audit(trx, { action: 'createNodeToken', subject, accountId: account_id, after: { sharing } })
      return nodeRepository.createNodeToken(trx, { accountId: account_id, sharing })
    })
    return { account_id, sharing, node_token }
  },
})
