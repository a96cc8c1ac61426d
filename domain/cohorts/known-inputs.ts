import type { PlanReason } from '../../schemas/cohort-plan.ts'
import { isChatCapable } from '../chat/chat.ts'
import { isChatMember } from '../chat/members.ts'
import type { Graph } from './graph.ts'
import { tokensOf } from './pointer.ts'

/** What an endpoint takes. */
export interface StageInput {
  task_type: string
  input_schema: Readonly<Record<string, unknown>>
}

/** Edges into members that the input of their stage does not have, by `stage_id`: servers would ignore most of them. */
export function unknownInputs({ edges }: Graph, inputs: ReadonlyMap<string, StageInput>): PlanReason[] {
  return edges.flatMap(({ edge_id, to: { stage_id, path }, space }) => {
    const [member] = tokensOf(path)
    const input = inputs.get(stage_id)
    // What goes between spaces need not be a member of the input.
    if (member === undefined || !input || space) return []
    const known = Object.keys(propertiesOf(input.input_schema))
    if (known.includes(member) || !isClosed(input, member)) return []
    const message = `edge "${edge_id}": the input of stage "${stage_id}" has no "${member}"; it has ${known.join(', ')}`
    return [{ code: 'unknown_input' as const, message, stage_id, edge_id }]
  })
}

const isClosed = ({ task_type, input_schema }: StageInput, member: string): boolean =>
  isChatCapable(task_type) ? !isChatMember(member) : input_schema['additionalProperties'] === false

function propertiesOf({ properties }: StageInput['input_schema']): object {
  return typeof properties === 'object' && properties !== null ? properties : {}
}
