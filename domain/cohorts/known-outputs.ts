import type { PlanReason } from '../../schemas/cohorts/plan.ts'
import { isChatCapable } from '../chat/chat.ts'
import { short } from '../format-faults.ts'
import { asker } from '../nearest-name.ts'
import { describedTaskType } from '../task-types/index.ts'
import type { Graph } from './graph.ts'
import { listed, propertiesOf } from './known-inputs.ts'
import { tokensOf } from './pointer.ts'

/** The result of an endpoint and the runtime profile that serves it. */
export interface StageOutput {
  task_type: string
  runtime_profile: string
  output_schema: Readonly<Record<string, unknown>>
}

/** Profiles whose servers are in this repository (node-runtime/servers), so their responses have no other members. */
const OWN_SERVERS: readonly string[] = [
  'tabular',
  'llm-transformers',
  'llm-llamacpp',
  'specialist-onnx',
  'specialist-torch',
  'specialist-llamacpp',
  'specialist-whisper',
  'generative-torch',
]
const CHAT_ANSWER = ['choices', 'id', 'object', 'created', 'prompt_token_ids']
/** Members that responses may have in addition to those in their schema. */
const FACTS = ['model', 'usage', 'truncated', 'output_artifacts']

/**
 * Returns edges and outputs that read a member that their stage's result never has, by `stage_id`. Reports only
 * problems that are certain to fail the run. It skips stages that are optional or have fallbacks, and edges that a
 * quorum can do without.
 */
export function unknownOutputs(
  { stages, edges, outputs }: Graph,
  results: ReadonlyMap<string, StageOutput>,
): PlanReason[] {
  const withQuorum = new Set(stages.flatMap(({ stage_id, quorum }) => (quorum === undefined ? [] : stage_id)))
  return stages.flatMap(({ stage_id, operation, required, fallbacks }) => {
    const result = results.get(stage_id)
    const members = operation === 'infer' && required && fallbacks.length === 0 && result && membersOf(result)
    if (!members) return []
    const { named, known } = members
    const meant = asker(known)
    const refusal = (path: string, what: string, edge_id?: string): PlanReason[] => {
      const [member] = tokensOf(path)
      if (member === undefined || known.includes(member)) return []
      const question = meant(member)
      const message = `${what} reads "${short(path)}" of stage "${stage_id}", whose result has no "${short(member)}"; ${question ? `${question} It has` : 'it has'} ${listed(named)}`
      return [{ code: 'unknown_output', message, stage_id, ...(edge_id !== undefined && { edge_id }) }]
    }
    return [
      ...edges
        .filter(({ from, to, space }) => from.stage_id === stage_id && !space && !withQuorum.has(to.stage_id))
        .flatMap(({ from, edge_id }) => refusal(from.path, `edge "${edge_id}"`, edge_id)),
      ...outputs
        .filter((output) => output.stage_id === stage_id)
        .flatMap(({ name, path }) => refusal(path, `output "${name}"`)),
    ]
  })
}

interface OutputMembers {
  /** Members that the schema names. */
  named: string[]
  /** All members that the result can have. */
  known: string[]
}

/** Returns the members that a result can have; undefined when that isn't known. */
function membersOf({ task_type, runtime_profile, output_schema }: StageOutput): OutputMembers | undefined {
  const named = Object.keys(propertiesOf(output_schema))
  if (output_schema['additionalProperties'] === false) return { named, known: [...named, ...FACTS] }
  if (!OWN_SERVERS.includes(runtime_profile) || named.length === 0) return undefined
  const others = isChatCapable(task_type)
    ? CHAT_ANSWER
    : Object.keys(propertiesOf(describedTaskType(task_type)?.output_schema ?? {}))
  return { named, known: [...new Set([...named, ...others, ...FACTS])] }
}
