import { Table } from '@mantine/core'
import type { ReactNode } from 'react'
import { ago, fullTime, lasted } from '../format.ts'
import { useTick } from '../use-tick.ts'

/** Names with their values. */
export function Facts({ of }: { of: Readonly<Record<string, ReactNode>> }) {
  return (
    <Table verticalSpacing={6} withRowBorders={false} layout="auto">
      <Table.Tbody>
        {Object.entries(of).map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" fw={500} c="dimmed" w={170} style={{ verticalAlign: 'top' }}>
              {name}
            </Table.Th>
            <Table.Td>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}

/** Shows the time since a moment, and updates itself. */
export function Time({ at }: { at: string | null | undefined }) {
  useTick()
  return at ? (
    <time dateTime={at} title={fullTime(at)}>
      {ago(at)}
    </time>
  ) : (
    <>–</>
  )
}

/** Shows the time between two moments, or until now, and updates itself. */
export function Lasted({ from, to }: { from: string | null; to: string | null }) {
  useTick()
  return <>{lasted(from, to)}</>
}
