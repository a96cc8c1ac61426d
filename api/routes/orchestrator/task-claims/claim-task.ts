import * as dispatchRepository from '../../../../db/repositories/nodes/dispatches.ts'
import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isTerminalTask } from '../../../../domain/inference-task.ts'
import { warmthOf } from '../../../../domain/placement/node-snapshot.ts'
import { isToolKey } from '../../../../domain/tools/catalog.ts'
import { turnKeyOf } from '../../../../platform/turn-key.ts'
import { TaskParams } from '../../../../schemas/inference-task.ts'
import { LEASE_SECONDS } from '../../../../schemas/nodes/lease-terms.ts'
import { ClaimRequest } from '../../../../schemas/nodes/lease.ts'
import { TaskClaim } from '../../../../schemas/nodes/task-claim.ts'
import { modelLoadStart } from '../../../../workflows/contract/starts.ts'
import { route } from '../../../http/route.ts'
import { uploadedFilesOf } from '../../../inference/input-files.ts'

const conflict = (message: string, state: string) => new ApiError('conflict', message, { details: { state } })

export const claimTask = route({
  operationId: 'claimTask',
  summary: 'Claim an inference task',
  method: 'POST',
  path: '/tasks/{task_id}/claim',
  auth: 'node-signature',
  params: TaskParams,
  body: ClaimRequest,
  success: { status: 200, schema: TaskClaim },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, body, afterCommit }, services) {
    const { db, now, links, gateway, outbox } = services
    const { nodeId } = caller
    const claimed = await db.transaction().execute(async (trx) => {
      const task = await taskRepository.lockTask(trx, params.task_id)
      if (!task || !(await dispatchRepository.mayClaim(trx, { kind: 'task', subjectId: task.id, nodeId }))) {
        throw new ApiError('not_found', 'no such task is assigned to this node')
      }
      if (isTerminalTask(task.status))
        throw conflict(`this task's status is already ${task.status}`, 'closed')
      // A warm request belongs to the gateway that admitted it.
      if (task.gateway_id) throw conflict('a gateway already handles this task', 'held')

      const lease = await leaseRepository.openLease(trx, {
        kind: 'task',
        subjectId: task.id,
        accountId: task.account_id,
        nodeId,
        leaseS: body.lease_s ?? LEASE_SECONDS.default,
      })
      if (!lease) throw conflict('this task is held under another lease', 'held')
      await taskRepository.claimTask(trx, task, { nodeId, attempt: lease.attempt, now: now() })

      // A tool is started again for each task, so it is never loaded.
      const isTool = isToolKey(task.model_key)
      const isWarm = isTool || warmthOf(links.placement.model(nodeId, task.model_key)) === 'warm'
      // A workflow shows operators the load that this claim causes.
      const order = { modelKey: task.model_key, nodeId }
      if (!isWarm) await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart(order))
      await modelOrderRepository.orderModel(trx, order)
      return { task, lease, endpoint: await taskRepository.findEndpointFacts(trx, task.endpoint_id) }
    })
    afterCommit(() => outbox.poke())

    const { task, lease, endpoint } = claimed
    const of = { accountId: task.account_id, taskType: endpoint.task_type }
    const files = await uploadedFilesOf(services, of, () =>
      taskRepository.findLeasedInput(db, task.id, lease.token),
    )
    return {
      task_id: task.id,
      lease_token: lease.token,
      lease_expires_at: lease.expires_at.toISOString(),
      attempt: lease.attempt,
      turn: turnKeyOf(task.account_id),
      endpoint_id: task.endpoint_id,
      model_name: endpoint.name,
      model_key: task.model_key,
      task_type: endpoint.task_type,
      input_url: `${gateway.baseUrl}/api/v1/tasks/${task.id}/input?lease_token=${lease.token}`,
      ...(files && { files }),
    }
  },
})
