import type { StageState } from '../../schemas/cohort-vocabulary.ts'
import type { Graph } from './graph.ts'
import { valueAt } from './pointer.ts'

const ENDED: ReadonlySet<StageState> = new Set(['succeeded', 'failed', 'skipped', 'cancelled'])

export const isOpenStage = ({ status }: { status: StageState }): boolean => !ENDED.has(status)

/** Returns the result of a cohort: each output by its name; null for one that its stage did not give. */
export function outputsOf(
  { stages, outputs }: Pick<Graph, 'stages' | 'outputs'>,
  rows: readonly { name: string; status: StageState; result: Buffer | null }[],
): Record<string, unknown> {
  const results = new Map<string, unknown>()
  for (const { name, status, result } of rows) {
    const spare = stages.find(({ stage_id }) => stage_id === name)?.default_output
    if (status === 'succeeded' && result) results.set(name, JSON.parse(result.toString()))
    else if (status === 'skipped') results.set(name, spare)
  }
  return Object.fromEntries(
    outputs.map(({ name, stage_id, path }) => [name, valueAt(results.get(stage_id), path) ?? null]),
  )
}
