import type { PlanReason } from '../../schemas/cohort-plan.ts'
import { isChatCapable } from '../chat/chat.ts'
import { CHAT_MEMBERS } from '../chat/members.ts'
import { short } from '../fault-words.ts'
import { asker } from '../nearest-name.ts'
import type { Graph, GraphEdge, GraphStage } from './graph.ts'
import { tokensOf } from './pointer.ts'

/** What an endpoint takes. */
export interface StageInput {
  task_type: string
  input_schema: Readonly<Record<string, unknown>>
}

/** So many members of one input are told. */
const MAX_REPORTED = 20

/**
 * Members that stages are given and that their inputs, by `stage_id`, do not have: servers would ignore most of them. An
 * input whose schema is open is left alone, unless a member that it requires is given by nobody.
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
    const needs = lacking.length > 0 ? `; nothing gives it ${listed(lacking)}, which it needs` : ''
    return (
      given
        .filter(({ member, isSpace }) => member !== undefined && !isSpace && !known.has(member))
        // Servers of chats have settings of their own, so only what looks misspelt is refused beside the edges.
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
          const takes = question ? `${question} It takes` : 'it takes'
          const message = `${whose} takes no "${short(member)}"; ${takes} ${listed(named)}${needs}`
          return { code: 'unknown_input', message, stage_id, ...(edge_id !== undefined && { edge_id }) }
        })
    )
  })
}

/** Fallbacks for another task than that of their stage, by `stage_id`, which take nothing of what the stage is given. */
export function unfitFallbacks(
  { stages, edges }: Graph,
  inputs: ReadonlyMap<string, StageInput>,
  fallbacks: ReadonlyMap<string, readonly (StageInput & { ref: string })[]>,
): PlanReason[] {
  return stages.flatMap((stage) => {
    const { stage_id } = stage
    const given = new Set(givenTo(stage, edges).map(({ member }) => member))
    // An edge that makes the whole input may give anything.
    if (given.size === 0 || given.has(undefined)) return []
    return (fallbacks.get(stage_id) ?? []).flatMap((fallback): PlanReason[] => {
      const { named, known } = takenBy(fallback)
      const isOther = fallback.task_type !== inputs.get(stage_id)?.task_type
      if (!isOther || known.size === 0 || [...known].some((member) => given.has(member))) return []
      const message = `stage "${stage_id}": its fallback "${fallback.ref}" serves ${fallback.task_type} and takes ${listed(named)}, nothing of what the stage is given: ${listed([...given].map(String))}`
      return [{ code: 'unknown_input', message, stage_id }]
    })
  })
}

/** A member of an input that is given with the graph or by an edge; without a name where an edge makes the whole input. */
interface Given {
  member: string | undefined
  edge_id?: string
  /** A value that goes between spaces need not be a member of the input. */
  isSpace?: boolean
}

const givenTo = ({ stage_id, input }: GraphStage, edges: readonly GraphEdge[]): Given[] => [
  ...Object.keys(input).map((member) => ({ member })),
  ...edges
    .filter(({ to }) => to.stage_id === stage_id)
    .map(({ edge_id, to, space }) => ({
      member: tokensOf(to.path)[0],
      edge_id,
      isSpace: space !== undefined,
    })),
]

/** Returns the members that a schema names, all that are known to be taken, and whether there are no others. */
function takenBy({ task_type, input_schema }: StageInput) {
  const named = Object.keys(propertiesOf(input_schema))
  const isChat = isChatCapable(task_type)
  return {
    named,
    known: new Set(isChat ? [...named, ...CHAT_MEMBERS] : named),
    isClosed: isChat || input_schema['additionalProperties'] === false,
  }
}

/** Returns the members that an input requires and nobody gives. */
function lackingIn({ input_schema }: StageInput, given: readonly Given[]): string[] {
  const { required } = input_schema
  if (!Array.isArray(required) || given.some(({ member }) => member === undefined)) return []
  const names = new Set(given.map(({ member }) => member))
  return required.map(String).filter((name) => !names.has(name))
}

/** Tells the members that there are, the first of many. */
export function listed(names: readonly string[]): string {
  const more = names.length > MAX_REPORTED ? ` and ${names.length - MAX_REPORTED} more` : ''
  return names.length === 0 ? 'nothing' : `${names.slice(0, MAX_REPORTED).map(short).join(', ')}${more}`
}

/** Returns the members that a schema names. */
export function propertiesOf({ properties }: Readonly<Record<string, unknown>>): object {
  return typeof properties === 'object' && properties !== null ? properties : {}
}
