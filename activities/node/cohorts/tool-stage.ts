import { ToolTimeoutError } from '../../../domain/cohorts/stages/timeout.ts'
import { ToolError } from '../../../node-runtime/tools/tool-error.ts'
import type { StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { CompleteTask } from '../../../schemas/nodes/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { type ClaimLease, InferenceError } from '../models/call-model.ts'
import { gatherInput } from './gather-input.ts'
import { namedFiles, StageSteps, withinTime } from './stage-steps.ts'

/** Runs a stage's tool in its sandbox once the producers have handed over their values, and returns its result. */
export async function runToolStage(
  deps: NodeDeps,
  claim: StageClaim,
  { lease }: Pick<ClaimLease, 'lease'>,
  signal: AbortSignal,
): Promise<CompleteTask> {
  const { tools } = deps
  const { model_key, turn } = claim
  const steps = new StageSteps(lease)
  const gathering = gatherInput(deps, claim, { steps, signal })
  steps.tell('waiting')
  using gathered = await gathering
  steps.tell('running')
  return withinTime(claim, signal, async (limited) => {
    const fields = tools.fileFieldsOf(model_key)
    const files = await namedFiles(deps, claim, { input: gathered.input, fields, signal: limited })
    const fetched = Object.fromEntries(files.map(({ field, url }) => [field, url]))
    const input = { ...gathered.input, ...fetched }
    // The gateway checks tasks' inputs, but only the node knows a stage's input.
    const refusal = tools.refusalOf(model_key, input)
    if (refusal !== undefined) throw new InferenceError(refusal, false)
    const startedAt = performance.now()
    const text = await tools
      .run(model_key, Buffer.from(JSON.stringify(input)), limited, turn)
      .catch((cause: unknown) => {
        if (!(cause instanceof ToolError) || !cause.isLate) throw cause
        throw new ToolTimeoutError(cause.message, tools.timeFieldOf(model_key), { cause })
      })
    return {
      result: JSON.parse(text.toString()) as CompleteTask['result'],
      inference_time_ms: Math.round((performance.now() - startedAt) * 100) / 100,
      model_state: 'resident',
    }
  })
}
