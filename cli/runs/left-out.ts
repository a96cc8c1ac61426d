import type { DataWarning, LeftOutColumn, TrainingRun } from '../../schemas/training-run.ts'

/** Lists the dataset columns that the model didn't learn from, with the reasons; undefined if there are none. */
export function leftOutOf({ metrics }: Pick<TrainingRun, 'metrics'>): string | undefined {
  const columns = metrics['left_out_columns']
  if (!Array.isArray(columns) || columns.length === 0) return undefined
  return (columns as LeftOutColumn[]).map(({ column, reason }) => `'${column}' (${reason})`).join(', ')
}

/** Returns the messages of a run's data warnings. */
export function warningsOf({ metrics }: Pick<TrainingRun, 'metrics'>): string[] {
  const warnings = metrics['warnings']
  return Array.isArray(warnings) ? (warnings as DataWarning[]).map(({ message }) => message) : []
}
