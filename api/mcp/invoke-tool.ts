import type { Invocation, InvokeBody } from '../../schemas/action.ts'
import { invokeAction } from '../actions/invoke.ts'
import { isEnded } from '../actions/present.ts'
import { readInvocation } from '../actions/read-invocation.ts'
import { requireRole } from '../http/auth.ts'
import { CallDeadline } from './call-deadline.ts'
import { invocationResult } from './invocation-result.ts'
import { failed } from './results.ts'
import { takesTasks } from './tasks/declared.ts'
import { stateOfInvocation } from './tasks/invocation-tasks.ts'
import { type CallContext, type JsonObject, StartedTask, type ToolResult } from './tool.ts'

/** Calls a tool in the manifest: creates an invocation and waits for it as long as clients would. */
export async function invokeTool(slug: string, input: JsonObject, context: CallContext): Promise<ToolResult> {
  const { request } = context
  try {
    requireRole(request.caller, 'operator')
    return await invoke(slug, input, context)
  } catch (err) {
    return failed(err, request.log, { within: 'input' })
  }
}

async function invoke(slug: string, input: JsonObject, context: CallContext): Promise<ToolResult> {
  const { request, services } = context
  const patience = new CallDeadline(context)
  const body: InvokeBody = { input, sync_timeout_s: patience.firstS }
  const rawBody = Buffer.from(JSON.stringify(body))
  const { invocation } = await invokeAction(services, { slug, request, body, rawBody, surface: 'mcp' })
  if (!isEnded(invocation) && takesTasks(context.mcp))
    return new StartedTask(stateOfInvocation(invocation, context))
  // Don't wait for a job, which takes minutes.
  if (isEnded(invocation) || invocation.task_id === null) return invocationResult(invocation)
  await patience.untilEnded(invocation.task_id)
  return invocationResult(await readAgain(invocation, context))
}

const readAgain = (
  { invocation_id: id }: Invocation,
  { request: { caller, signal, res }, services }: CallContext,
): Promise<Invocation> =>
  readInvocation(services, { accountId: caller.accountId, id }, { signal, res, surface: 'mcp' })
