import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { publicKeyFromRaw } from '../../../../platform/signing.ts'
import { JoinNode, NodeJoined } from '../../../../schemas/nodes/node.ts'
import { route } from '../../../http/route.ts'

export const joinNode = route({
  operationId: 'joinNode',
  summary: 'Join a machine to the pool with a one-time token',
  method: 'POST',
  path: '/nodes:join',
  auth: 'join-token',
  body: JoinNode,
  maxBodyBytes: 16 * 1024,
  success: { status: 201, schema: NodeJoined },

  async handler({ caller: { token }, body: { name, public_key, inventory } }, { db }) {
    if (!publicKeyFromRaw(public_key)) {
      throw new ApiError('validation_failed', 'public_key is not 32 bytes of base64', {
        details: { issues: [{ loc: ['body', 'public_key'], msg: 'not an Ed25519 key', type: 'key' }] },
      })
    }
    const publicKey = Buffer.from(public_key, 'base64')
    const node = await db
      .transaction()
      .execute((trx) => nodeRepository.joinNode(trx, { token, name, publicKey, inventory }))
    if (!node) throw new ApiError('unauthenticated', 'this join token is unknown, expired or already used')

    return {
      node_id: node.id,
      account_id: node.account_id,
      gateways: await nodeRepository.listGatewayUrls(db),
    }
  },
})
