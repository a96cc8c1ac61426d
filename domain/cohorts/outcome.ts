import type { StageState } from '../../schemas/cohorts/vocabulary.ts'
import type { Graph, GraphStage } from './graph.ts'
import { valueAt } from './pointer.ts'

const ENDED: ReadonlySet<StageState> = new Set(['succeeded', 'failed', 'skipped', 'cancelled'])

export const isOpenStage = ({ status }: { status: StageState }): boolean => !ENDED.has(status)

/** Together, the cohort's outputs are too large for a task's result. */
export class OutputsTooLargeError extends Error {
  override readonly name = 'OutputsTooLargeError'
}

/**
 * Returns a cohort's result as JSON: each output by name, null if its stage produced none. `stages` are the skipped
 * stages, as the graph defines them; `results` holds the results of the succeeded stages, by name. Throws an
 * `OutputsTooLargeError` above `mostBytes`.
 */
export function outputsOf(
  {
    stages,
    outputs,
  }: Pick<Graph, 'outputs'> & { stages: readonly Pick<GraphStage, 'stage_id' | 'default_output'>[] },
  rows: readonly { name: string; status: StageState }[],
  { results, mostBytes }: { results: ReadonlyMap<string, Buffer>; mostBytes: number },
): string {
  const values = new Map<string, unknown>()
  for (const { name, status } of rows) {
    const spare = stages.find(({ stage_id }) => stage_id === name)?.default_output
    const result = results.get(name)
    if (status === 'succeeded' && result) values.set(name, JSON.parse(result.toString()))
    else if (status === 'skipped') values.set(name, spare)
  }
  const members: string[] = []
  let bytes = 0
  for (const { name, stage_id, path } of outputs) {
    const member = `${JSON.stringify(name)}:${JSON.stringify(valueAt(values.get(stage_id), path) ?? null)}`
    bytes += Buffer.byteLength(member)
    if (bytes > mostBytes) throw new OutputsTooLargeError(outputsTooLarge(mostBytes))
    members.push(member)
  }
  return `{${members.join()}}`
}

/** The error message for outputs over the limit. */
export const outputsTooLarge = (mostBytes: number): string =>
  `the outputs of the cohort exceed ${mostBytes} bytes; select smaller parts with "path", or fewer outputs`
