import { Text } from '@mantine/core'
import { number } from '../format.ts'
import type { JsonSchema } from '../types.ts'
import { formatPrediction } from './prediction.ts'
import { rowSchemaOf, rowsIn } from './rows.ts'
import { RowTable } from './table-rows.tsx'

const SHOWN = 100

interface PredictionsProps {
  of: Record<string, unknown>
  input: unknown
  schema: JsonSchema
}

/** The rows that were sent to a model, each with its prediction; renders nothing for other results. */
export function Predictions({ of: { predictions }, input, schema }: PredictionsProps) {
  const rows = rowsIn(input)
  const columns = rowSchemaOf(schema)
  if (!columns || !Array.isArray(predictions) || predictions.length !== rows.length) return null
  return (
    <div>
      <RowTable
        caption="predictions"
        of={columns}
        rows={rows.slice(0, SHOWN)}
        first={{ head: 'Prediction', cellOf: (at) => formatPrediction(predictions[at]) }}
      />
      {rows.length > SHOWN && (
        <Text size="sm" c="dimmed">
          These are the first {SHOWN} of {number(rows.length)} rows; the text below has all.
        </Text>
      )}
    </div>
  )
}
