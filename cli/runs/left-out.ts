import type { LeftOutColumn, TrainingRun } from '../../schemas/training-run.ts'

/** Names the columns of the dataset that a model did not learn from, with the reasons; undefined where there are none. */
export function leftOutOf({ metrics }: Pick<TrainingRun, 'metrics'>): string | undefined {
  const columns = metrics['left_out_columns']
  if (!Array.isArray(columns) || columns.length === 0) return undefined
  return (columns as LeftOutColumn[]).map(({ column, reason }) => `'${column}' (${reason})`).join(', ')
}
