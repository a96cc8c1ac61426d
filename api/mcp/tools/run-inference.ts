import Type, { type Static } from 'typebox'
import { isTerminalTask } from '../../../domain/inference-task.ts'
import { Uuid } from '../../../schemas/common.ts'
import { InferBody, InferResponse } from '../../../schemas/inference-task.ts'
import { requireRole, roleOf } from '../../http/auth.ts'
import { infer } from '../../routes/builder/endpoints/infer.ts'
import { InferParams } from '../../routes/builder/endpoints/params.ts'
import { answerOfTask, inferenceResult, stepInWords } from '../inference-result.ts'
import { publicSchema } from '../json-schema.ts'
import { operate } from '../operate.ts'
import { checked } from '../operation-tool.ts'
import { type Progress, progressOf } from '../progress.ts'
import { takesTasks } from '../tasks/declared.ts'
import { readInferenceTask, stateOfInference } from '../tasks/inference-tasks.ts'
import { type CallContext, StartedTask, type Tool, type ToolResult } from '../tool.ts'

const Input = Type.Object(
  {
    endpoint_id: { ...InferParams.properties.endpoint_id, description: 'The id or name of an endpoint' },
    input: { ...InferBody.properties.input, description: "As the endpoint's input_schema describes it" },
    task_id: Type.Optional({
      ...Uuid,
      description:
        'Only to wait on for the result of an earlier call that has not ended: its task_id, with the same endpoint_id and input. Nothing is run again.',
    }),
  },
  { additionalProperties: false },
)
type Args = Static<typeof Input>

/** Clients give up after 60 s, so a call is answered well before, with the task that goes on. */
const PATIENCE_MS = 40_000
/** After this time a client that takes progress or tasks gets the first. */
const SILENT_S = 2

export const runInferenceTool: Tool = {
  name: 'run_inference',
  title: 'Ask a model',
  description:
    'Sends an input to an endpoint and returns the result of its model. A model that is not loaded yet may take longer than the call: then the answer has a task_id, with which the same call waits on.',
  inputSchema: publicSchema(Input),
  outputSchema: publicSchema(InferResponse),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  call: checked(Input, runInference),
}

async function runInference(args: Args, context: CallContext): Promise<ToolResult> {
  requireRole(context.request.caller, roleOf(infer))
  const began = performance.now()
  const progress = progressOf(context.mcp)
  const asTask = takesTasks(context.mcp)
  const first = await answerTo(args, context, progress || asTask ? SILENT_S : PATIENCE_MS / 1000)
  if (isTerminalTask(first.status)) return inferenceResult(first)
  if (asTask)
    return new StartedTask(stateOfInference(await readInferenceTask(context, first.task_id), context))
  return inferenceResult(await waitOn(first, context, { began, progress }))
}

/** Asks the model, or reads the task of an earlier call. */
async function answerTo(
  { endpoint_id, input, task_id }: Args,
  context: CallContext,
  seconds: number,
): Promise<InferResponse> {
  if (task_id !== undefined) return answerOfTask(await readInferenceTask(context, task_id))
  const body = { input, sync: true, sync_timeout_s: seconds }
  return operate<InferResponse>(infer, context, { params: { endpoint_id }, body })
}

/** Waits for the end of a task as long as clients do, and tells the progress. */
async function waitOn(
  first: InferResponse,
  context: CallContext,
  { began, progress }: { began: number; progress: Progress | undefined },
): Promise<InferResponse> {
  const { request, services } = context
  const elapsed = () => performance.now() - began
  let answer = first
  while (!isTerminalTask(answer.status) && elapsed() < PATIENCE_MS && !request.disconnect.aborted) {
    const left = PATIENCE_MS - elapsed()
    const step = progress ? Math.min(left, SILENT_S * 1000) : left
    await services.taskWaiters.wait(answer.task_id, step, request.signal)
    const task = await readInferenceTask(context, answer.task_id)
    answer = { ...answer, ...answerOfTask(task) }
    if (!isTerminalTask(task.status)) await progress?.(Math.round(elapsed() / 1000), stepInWords(task))
  }
  return { ...answer, sync_latency_ms: Math.round(elapsed()) }
}
