import { List, Text } from '@mantine/core'
import type { DataWarning } from '../types.ts'

/** The data warnings of a run; renders nothing if there are none. */
export function DataWarnings({ of }: { of: unknown }) {
  if (!Array.isArray(of) || of.length === 0) return null
  const warnings = of as DataWarning[]
  return (
    <div>
      <Text size="sm" my="xs" fw={600}>
        Check the data of this run:
      </Text>
      <List size="sm" spacing={4} aria-label="Warnings about the data">
        {warnings.map(({ message }) => (
          <List.Item key={message}>{message}</List.Item>
        ))}
      </List>
    </div>
  )
}
