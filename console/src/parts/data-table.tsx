import { Button, Group, Table, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Loading } from './page.tsx'

export interface Column<T> {
  head: string
  cell: (row: T) => ReactNode
  align?: 'right'
}

interface DataTableProps<T> {
  caption: string
  columns: readonly Column<T>[]
  rows: readonly T[] | undefined
  idOf: (row: T) => string
  /** What to say, and to do, when there is none. */
  empty: ReactNode
  error?: Error | null
  more?: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }
}

export function DataTable<T>({ caption, columns, rows, idOf, empty, error, more }: DataTableProps<T>) {
  if (!rows) return <Loading error={error ?? null} what={caption} />
  if (rows.length === 0)
    return (
      <Text c="dimmed" component="div">
        {empty}
      </Text>
    )
  return (
    <>
      <Table.ScrollContainer minWidth={560} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table highlightOnHover verticalSpacing="sm" aria-label={caption}>
          <Table.Thead>
            <Table.Tr>
              {columns.map(({ head, align }) => (
                <Table.Th key={head} ta={align}>
                  {head}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => (
              <Table.Tr key={idOf(row)}>
                {columns.map(({ head, cell, align }) => (
                  <Table.Td key={head} ta={align}>
                    {cell(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {more?.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={more.isFetchingNextPage} onClick={() => more.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </>
  )
}
