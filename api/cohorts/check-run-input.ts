import { type Graph, inWriteOrder, RUN_INPUT } from '../../domain/cohorts/graph.ts'
import { PointerError, whereItEnds } from '../../domain/cohorts/pointer.ts'
import { carriedBy, withCarried } from '../../domain/cohorts/values.ts'
import { invalid } from '../../domain/errors.ts'
import { MAX_RUN_INPUT_BYTES } from '../../schemas/cohorts/cohort.ts'

/** The maximum size of a stage's initial input, before its producers hand over their values. */
const MAX_STAGE_INPUT_BYTES = 4 * MAX_RUN_INPUT_BYTES

/**
 * Checks that a run's input has every value its edges read, that each value has a target, and that no stage's initial
 * input is too large. Sizes are counted before values are written, so a small request cannot produce a huge input.
 */
export function checkRunInput({ stages, edges }: Graph, input: Record<string, unknown>): void {
  if (jsonBytes(input) > MAX_RUN_INPUT_BYTES)
    throw invalid(['body', 'input'], `must have at most ${MAX_RUN_INPUT_BYTES} bytes; upload larger inputs`)
  const known = new Map(stages.map((stage) => [stage.stage_id, stage.input]))
  const written = new Map<string, number>()
  for (const { edge_id, from, to } of inWriteOrder(edges)) {
    const edge = { from_path: from.path, to_path: to.path, template: to.template ?? null }
    const isInput = from.stage_id === RUN_INPUT
    const value = isInput ? carriedBy(edge, input) : null
    if (value === undefined) {
      const message = `has no value at "${from.path}", which edge "${edge_id}" reads: ${whereItEnds(input, from.path)}`
      throw invalid(['body', 'input'], message)
    }
    const bytes = (written.get(to.stage_id) ?? 0) + jsonBytes(value)
    refuseBeyond(to.stage_id, bytes)
    written.set(to.stage_id, bytes)
    try {
      known.set(to.stage_id, withCarried(known.get(to.stage_id) ?? {}, edge, value))
    } catch (err) {
      if (!(err instanceof PointerError)) throw err
      throw invalid(['body', 'plan', 'edges'], `edge "${edge_id}": ${err.message}`)
    }
    if (isInput && to.path === '' && !isObject(value)) {
      const message = `has no object at "${from.path}", which edge "${edge_id}" uses as the whole input of stage "${to.stage_id}"`
      throw invalid(['body', 'input'], message)
    }
  }
  for (const [name, whole] of known) refuseBeyond(name, jsonBytes(whole))
}

function refuseBeyond(stage: string, bytes: number): void {
  if (bytes <= MAX_STAGE_INPUT_BYTES) return
  const message = `stage "${stage}" would start with at least ${bytes} bytes of input; the limit is ${MAX_STAGE_INPUT_BYTES}`
  throw invalid(['body', 'input'], message)
}

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
