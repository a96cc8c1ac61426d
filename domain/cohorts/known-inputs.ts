import type { PlanReason } from '../../schemas/cohorts/plan.ts'
import { isChatCapable } from '../chat/chat.ts'
import { short } from '../format-faults.ts'
import { asker } from '../nearest-name.ts'
import type { Graph, GraphEdge, GraphStage } from './graph.ts'
import { tokensOf } from './pointer.ts'

/** The input that an endpoint accepts. */
export interface StageInput {
  task_type: string
  input_schema: Readonly<Record<string, unknown>>
}

/** The maximum number of members reported per input, and of names listed in an error message. */
const MAX_REPORTED = 20
/** The chat request members that servers read: OpenAI's, plus vLLM's extensions. */
const CHAT_MEMBERS: ReadonlySet<string> = new Set(
  `messages model max_tokens max_completion_tokens min_tokens temperature top_p top_k min_p n best_of stop stop_token_ids
  stream stream_options seed frequency_penalty presence_penalty repetition_penalty length_penalty logit_bias logprobs
  top_logprobs prompt_logprobs tools tool_choice parallel_tool_calls functions function_call response_format
  reasoning_effort reasoning verbosity thinking_token_budget chat_template chat_template_kwargs add_generation_prompt
  continue_final_message add_special_tokens documents echo ignore_eos skip_special_tokens
  spaces_between_special_tokens include_stop_str_in_output truncate_prompt_tokens allowed_token_ids bad_words
  use_beam_search guided_json guided_regex guided_choice guided_grammar guided_decoding_backend
  guided_whitespace_pattern structured_outputs structural_tag include_reasoning mm_processor_kwargs modalities audio
  prediction metadata store user service_tier priority cache_salt kv_transfer_params vllm_xargs logits_processors
  return_token_ids return_tokens_as_token_ids request_id prompt_cache_key safety_identifier image_url audio_url
  prompt system input web_search_options`.split(/\s+/),
)

/**
 * Returns members that a stage receives but its input schema lacks, by `stage_id`; most servers would ignore them. An
 * input with an open schema is not checked, unless a required member is missing.
 */
export function unknownInputs(
  { stages, edges }: Graph,
  inputs: ReadonlyMap<string, StageInput>,
): PlanReason[] {
  return stages.flatMap((stage) => {
    const { stage_id } = stage
    const input = inputs.get(stage_id)
    if (!input) return []
    const given = givenTo(stage, edges)
    const { named, known, isClosed } = takenBy(input)
    const lacking = isChatCapable(input.task_type) ? [] : lackingIn(input, given)
    if (!isClosed && (lacking.length === 0 || known.size === 0)) return []
    const meant = asker([...known])
    const needs = lacking.length > 0 ? `; nothing provides its required ${listed(lacking)}` : ''
    return (
      given
        .filter(({ member, isSpace }) => member !== undefined && !isSpace && !known.has(member))
        // Chat servers have additional settings, so without an edge we only reject names that look misspelt.
        .filter(
          ({ member = '', edge_id }) =>
            edge_id !== undefined || !isChatCapable(input.task_type) || meant(member),
        )
        .slice(0, MAX_REPORTED)
        .map(({ member = '', edge_id }): PlanReason => {
          const whose =
            edge_id === undefined
              ? `stage "${stage_id}": its endpoint`
              : `edge "${edge_id}": the endpoint of stage "${stage_id}"`
          const question = meant(member)
          const takes = question ? `${question} It accepts` : 'it accepts'
          const message = `${whose} does not accept "${short(member)}"; ${takes} ${listed(named)}${needs}`
          return { code: 'unknown_input', message, stage_id, ...(edge_id !== undefined && { edge_id }) }
        })
    )
  })
}

/** Returns fallbacks, by `stage_id`, that serve a different task type than their stage and accept none of its input. */
export function unfitFallbacks(
  { stages, edges }: Graph,
  inputs: ReadonlyMap<string, StageInput>,
  fallbacks: ReadonlyMap<string, readonly (StageInput & { ref: string })[]>,
): PlanReason[] {
  return stages.flatMap((stage) => {
    const { stage_id } = stage
    const given = new Set(givenTo(stage, edges).map(({ member }) => member))
    // An edge that writes the whole input may provide any member.
    if (given.size === 0 || given.has(undefined)) return []
    return (fallbacks.get(stage_id) ?? []).flatMap((fallback): PlanReason[] => {
      const { named, known } = takenBy(fallback)
      const isOther = fallback.task_type !== inputs.get(stage_id)?.task_type
      if (!isOther || known.size === 0 || [...known].some((member) => given.has(member))) return []
      const message = `stage "${stage_id}": its fallback "${fallback.ref}" serves ${fallback.task_type} and takes ${listed(named)}, but the stage gets none of these, only ${listed([...given].map(String))}`
      return [{ code: 'unknown_input', message, stage_id }]
    })
  })
}

/** An input member provided by the graph or by an edge. It has no name if an edge writes the whole input. */
interface ProvidedMember {
  member: string | undefined
  edge_id?: string
  /** A representation handed over between spaces need not be a member of the input. */
  isSpace?: boolean
}

const givenTo = ({ stage_id, input }: GraphStage, edges: readonly GraphEdge[]): ProvidedMember[] => [
  ...Object.keys(input).map((member) => ({ member })),
  ...edges
    .filter(({ to }) => to.stage_id === stage_id)
    .map(({ edge_id, to, space }) => ({
      member: tokensOf(to.path)[0],
      edge_id,
      isSpace: space !== undefined,
    })),
]

/** Returns the members that a schema names, all members known to be accepted, and whether any others are rejected. */
function takenBy({ task_type, input_schema }: StageInput) {
  const named = Object.keys(propertiesOf(input_schema))
  const isChat = isChatCapable(task_type)
  return {
    named,
    known: new Set(isChat ? [...named, ...CHAT_MEMBERS] : named),
    isClosed: isChat || input_schema['additionalProperties'] === false,
  }
}

/** Returns the required members of an input that nothing provides. */
function lackingIn({ input_schema }: StageInput, given: readonly ProvidedMember[]): string[] {
  const { required } = input_schema
  if (!Array.isArray(required) || given.some(({ member }) => member === undefined)) return []
  const names = new Set(given.map(({ member }) => member))
  return required.map(String).filter((name) => !names.has(name))
}

/** Lists names, up to a limit, for an error message. */
export function listed(names: readonly string[]): string {
  const more = names.length > MAX_REPORTED ? ` and ${names.length - MAX_REPORTED} more` : ''
  return names.length === 0 ? 'nothing' : `${names.slice(0, MAX_REPORTED).map(short).join(', ')}${more}`
}

/** Returns the members that a schema names. */
export function propertiesOf({ properties }: Readonly<Record<string, unknown>>): object {
  return typeof properties === 'object' && properties !== null ? properties : {}
}
