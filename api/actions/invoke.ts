import { SYNC_TIMEOUT_S } from '../../schemas/inference-task.ts'
import { callOperation } from '../http/call-operation.ts'
import { passKillSwitch } from '../http/kill-switch-gate.ts'
import { cancelTrainingRun } from '../routes/builder/training-runs/cancel-training-run.ts'
import type { Services } from '../services.ts'
import { findAction } from './find-action.ts'
import { InvocationKey } from './invocation-key.ts'
import { invokeEndpoint, queueInvocation } from './invoke-endpoint.ts'
import { invokeOperation } from './invoke-operation.ts'
import type { InvokeResult, InvokeRequest } from './invoke-request.ts'
import { requireAllowed } from './limits.ts'
import { operationAction } from './operation-actions.ts'
import { isEnded } from './present.ts'
import { awaitInvocation } from './read-invocation.ts'

/**
 * Invokes an action. Without a key, a loaded model answers at once, and a disconnect cancels a synchronous call. With a
 * key, all requests with that key share exactly one invocation: its work is durable from the start and survives any
 * client's disconnect.
 */
export async function invokeAction(services: Services, invoke: InvokeRequest): Promise<InvokeResult> {
  const { db } = services
  const { slug, request, body, rawBody, idempotencyKey } = invoke
  const { accountId } = request.caller
  await requireAllowed(services, request.caller, slug)
  if (idempotencyKey !== undefined) {
    const key = new InvocationKey(db, { accountId, slug, key: idempotencyKey, body, rawBody })
    const { id, isReplay } = await key.once(() => createOnce(services, invoke, key))
    const options = { timeoutMs: windowMs(invoke), reader: readerOf(invoke) }
    return { invocation: await awaitInvocation(services, { accountId, id }, options), isReplay }
  }
  await passKillSwitch(services.killSwitch)
  const action = await findAction(services, accountId, slug)
  if (!action.operation)
    return { invocation: await invokeEndpoint(services, action, invoke), isReplay: false }

  const id = await invokeOperation(services, action.operation, invoke, undefined)
  const options = { timeoutMs: windowMs(invoke), reader: readerOf(invoke) }
  const invocation = await awaitInvocation(services, { accountId, id }, options)
  if (request.signal.aborted && body.sync === true && !isEnded(invocation)) {
    const params = { run_id: invocation.job_id }
    await callOperation(cancelTrainingRun, { request, params, surface: invoke.surface }, services)
  }
  return { invocation, isReplay: false }
}

/** Creates the invocation for a request with a key; returns its id. */
async function createOnce(services: Services, invoke: InvokeRequest, key: InvocationKey): Promise<string> {
  await passKillSwitch(services.killSwitch)
  const action = await findAction(services, invoke.request.caller.accountId, invoke.slug)
  return action.operation
    ? invokeOperation(services, action.operation, invoke, key)
    : queueInvocation(services, action, invoke, key)
}

/** Several tool calls may share one response. */
const readerOf = ({ request: { signal, res }, surface }: InvokeRequest) =>
  surface === 'mcp' ? { signal, res, surface } : { signal, res }

/** How long a request waits for its result. Jobs take minutes, so the default for them is not to wait. */
function windowMs({ slug, body }: InvokeRequest): number {
  const { sync = operationAction(slug) === undefined, sync_timeout_s: seconds = SYNC_TIMEOUT_S.default } =
    body
  return sync ? seconds * 1000 : 0
}
