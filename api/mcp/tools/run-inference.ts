import Type, { type Static } from 'typebox'
import { isTerminalTask } from '../../../domain/inference-task.ts'
import { Uuid } from '../../../schemas/common.ts'
import { InferBody, InferResponse } from '../../../schemas/inference-task.ts'
import { requireRole, roleOf } from '../../http/auth.ts'
import { infer } from '../../routes/builder/endpoints/infer.ts'
import { InferParams } from '../../routes/builder/endpoints/params.ts'
import { CallDeadline } from '../call-deadline.ts'
import { answerOfTask, inferenceResult } from '../inference-result.ts'
import { publicSchema } from '../json-schema.ts'
import { operate } from '../operate.ts'
import { checked } from '../operation-tool.ts'
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
        'The task_id of an earlier call, to keep waiting for its result. Repeat its endpoint_id and input; nothing runs twice.',
    }),
  },
  { additionalProperties: false },
)
type Args = Static<typeof Input>

export const runInferenceTool: Tool = {
  name: 'run_inference',
  title: 'Call a model',
  description:
    'Sends an input to an endpoint and returns the result of its model. If the model is still loading when the call ends, the result has a task_id; repeat the call with it to keep waiting.',
  inputSchema: publicSchema(Input),
  outputSchema: publicSchema(InferResponse),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  call: checked(Input, runInference),
}

async function runInference(args: Args, context: CallContext): Promise<ToolResult> {
  requireRole(context.request.caller, roleOf(infer))
  const patience = new CallDeadline(context)
  const first = await answerTo(args, context, patience.firstS)
  if (isTerminalTask(first.status)) return inferenceResult(first)
  if (takesTasks(context.mcp)) {
    const task = await readInferenceTask(context, first.task_id)
    return new StartedTask(stateOfInference(task, context))
  }
  const last = answerOfTask(await patience.untilEnded(first.task_id))
  return inferenceResult({ ...first, ...last, sync_latency_ms: patience.elapsedMs })
}

/** Calls the model, or reads the task of an earlier call. */
async function answerTo(
  { endpoint_id, input, task_id }: Args,
  context: CallContext,
  seconds: number,
): Promise<InferResponse> {
  if (task_id !== undefined) return answerOfTask(await readInferenceTask(context, task_id))
  const body = { input, sync: true, sync_timeout_s: seconds }
  return operate<InferResponse>(infer, context, { params: { endpoint_id }, body })
}
