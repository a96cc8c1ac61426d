import { List, Text } from '@mantine/core'
import type { LeftOutColumn } from '../types.ts'

/** The columns that a model didn't learn from, each with the reason; renders nothing if there are none. */
export function LeftOutColumns({ of }: { of: unknown }) {
  if (!Array.isArray(of) || of.length === 0) return null
  const columns = of as LeftOutColumn[]
  return (
    <div>
      <Text size="sm" my="xs">
        The model did not learn from {columns.length === 1 ? 'this column' : 'these columns'} of the table:
      </Text>
      <List size="sm" spacing={4} aria-label="Columns left out">
        {columns.map(({ column, reason }) => (
          <List.Item key={column}>
            <span className="mono">{column || '(no name)'}</span>: {reason}
          </List.Item>
        ))}
      </List>
    </div>
  )
}
