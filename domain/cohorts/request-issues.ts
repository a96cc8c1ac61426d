import { COHORT_LIMITS, type PlanRequest } from '../../schemas/cohorts/plan.ts'
import type { Issue } from '../errors.ts'
import { edgeName, RUN_INPUT } from './graph.ts'

const VALUE = '{{value}}'

/**
 * Returns the validation errors of a request that its schema cannot express, with paths relative to the request body.
 */
export function issuesOf(
  { stages, edges, outputs = [] }: PlanRequest,
  basePath: readonly string[] = ['body'],
): Issue[] {
  const issues: Issue[] = []
  const fault = (loc: readonly (string | number)[], msg: string) =>
    issues.push({ loc: [...basePath, ...loc], msg, type: 'value_error' })

  const twice = (list: string, values: readonly (string | undefined)[], name: string) => {
    for (const [i, value] of values.entries())
      if (value !== undefined && values.indexOf(value) < i)
        fault([list, i, name], `must be unique; "${value}" is already used`)
  }
  const ids = stages.map(({ stage_id }) => stage_id)
  twice('stages', ids, 'stage_id')
  twice('edges', edges.map(edgeName), 'edge_id')
  twice(
    'outputs',
    outputs.map(({ name }) => name),
    'name',
  )
  for (const [i, stage] of stages.entries()) {
    const { stage_id, required = true, default_output, quorum, placement } = stage
    if (stage_id === RUN_INPUT)
      fault(
        ['stages', i, 'stage_id'],
        `must not be "${RUN_INPUT}", which is reserved for the input of the run`,
      )
    // Clients that serialize every field send null when there is no default.
    if (required && default_output !== undefined && default_output !== null)
      fault(['stages', i, 'default_output'], 'is only allowed for a stage with "required": false')
    if (default_output !== undefined && sizeOf(default_output) > COHORT_LIMITS.inlineBytes)
      fault(['stages', i, 'default_output'], `must have at most ${COHORT_LIMITS.inlineBytes} bytes of JSON`)
    const incoming = edges.filter(({ from, to }) => to.stage_id === stage_id && from.stage_id !== RUN_INPUT)
    if (quorum !== undefined && quorum > incoming.length)
      fault(
        ['stages', i, 'quorum'],
        `must be at most ${incoming.length}, the number of stages that hand over to it`,
      )
    if (placement?.same_node_as === stage_id)
      fault(['stages', i, 'placement', 'same_node_as'], 'must name another stage')
  }
  for (const [i, { from, to, space }] of edges.entries()) {
    const { template } = to
    if (template !== undefined && template.split(VALUE).length !== 2)
      fault(['edges', i, 'to', 'template'], `must contain ${VALUE} exactly once`)
    if (template !== undefined && space)
      fault(
        ['edges', i, 'to', 'template'],
        'is only allowed for values, not for representations between spaces',
      )
    if (space && from.stage_id === RUN_INPUT)
      fault(['edges', i, 'space'], 'is only allowed for edges from a stage, not from the input of the run')
  }
  return issues
}

const sizeOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length
