import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { CREDENTIAL_TTL_MS } from '../../../../platform/node-credentials.ts'
import { AskTemporalCredential, TemporalCredential } from '../../../../schemas/nodes/node.ts'
import { route } from '../../../http/route.ts'

export const issueTemporalCredential = route({
  operationId: 'issueTemporalCredential',
  summary: "Issue a node's credential for the gate to Temporal, valid for a few minutes",
  method: 'POST',
  path: '/nodes:temporal-credential',
  auth: 'node-signature',
  body: AskTemporalCredential,
  success: { status: 200, schema: TemporalCredential },
  errors: ['unavailable'],

  async handler({ caller: { nodeId }, body }, { config, db, now, nodeCredentials }) {
    const { HEARTH_GATE_URL: gate, TEMPORAL_NAMESPACE: namespace } = config
    if (!gate) {
      throw new ApiError(
        'unavailable',
        'this gateway has no HEARTH_GATE_URL, so nodes cannot reach Temporal; set it on the gateway',
      )
    }
    const { instance_id: instanceId, is_start: isStart } = body
    if (!(await nodeRepository.isCurrentInstance(db, nodeId, { instanceId, isStart }))) {
      throw new ApiError('unauthenticated', 'another process has since started as this node', {
        details: { reason: 'node_replaced' },
      })
    }
    const { protocol, hostname, port } = new URL(gate)
    const isTls = protocol === 'https:'
    const expiresAt = now().getTime() + CREDENTIAL_TTL_MS
    return {
      address: `${hostname}:${port || (isTls ? 443 : 80)}`,
      tls: isTls,
      namespace,
      token: nodeCredentials.issue({ nodeId, expiresAt }),
      expires_at: new Date(expiresAt).toISOString(),
    }
  },
})
