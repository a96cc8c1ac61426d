import { Button, Group, Text, UnstyledButton } from '@mantine/core'
import type { ReactNode } from 'react'
import { Loading } from './page.tsx'
import { State, type StateProps, StatesToldOf } from './state.tsx'
import { Wide } from './wide.tsx'

export interface Column<T> {
  head: string
  /** The state of a row. A legend below the table explains the states on the page. */
  state?: (row: T) => StateProps | undefined
  cell?: (row: T) => ReactNode
  align?: 'right'
  /** The API's name for this sort order. If set, the column header is a button. */
  sort?: string
}

export interface SortOrder {
  by: string
  order: 'asc' | 'desc'
}

/** The initial order of lists. */
export const NEWEST: SortOrder = { by: 'created_at', order: 'desc' }

interface DataTableProps<T> {
  caption: string
  columns: readonly Column<T>[]
  rows: readonly T[] | undefined
  idOf: (row: T) => string
  /** The text for an empty list, including what to do. */
  empty: ReactNode
  error?: Error | null
  sorted?: SortOrder
  onSort?: (sorted: SortOrder) => void
  more?: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }
}

export function DataTable<T>({
  caption,
  columns,
  rows,
  idOf,
  empty,
  error,
  sorted,
  onSort,
  more,
}: DataTableProps<T>) {
  if (!rows) return <Loading error={error ?? null} what={caption} />
  if (rows.length === 0)
    return (
      <Text c="dimmed" component="div">
        {empty}
      </Text>
    )
  return (
    <>
      <Wide label={caption}>
        {/* A component for each cell would take most of the time of a long list. */}
        <table className="rows" aria-label={caption}>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head key={column.head} of={column} sorted={sorted} onSort={onSort} />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={idOf(row)}>
                {columns.map(({ head, state, cell, align }) => (
                  <td key={head} data-align={align}>
                    {state && <StateOrNone of={state(row)} />}
                    {cell?.(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <StatesToldOf of={columns.flatMap(({ state }) => (state ? rows.map(state) : []))} />
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

const StateOrNone = ({ of }: { of: StateProps | undefined }) => (of ? <State {...of} /> : '–')

interface HeadProps {
  of: Pick<Column<never>, 'head' | 'align' | 'sort'>
  sorted: SortOrder | undefined
  onSort: ((sorted: SortOrder) => void) | undefined
}

/** A column header; a second click reverses the order. */
function Head({ of: { head, align, sort }, sorted, onSort }: HeadProps) {
  if (!sort || !onSort) return <th data-align={align}>{head}</th>
  const isSorted = sorted?.by === sort
  const order = isSorted && sorted.order === 'asc' ? 'desc' : 'asc'
  return (
    <th
      data-align={align}
      aria-sort={isSorted ? (sorted.order === 'asc' ? 'ascending' : 'descending') : undefined}
    >
      <UnstyledButton fw={700} fz="sm" onClick={() => onSort({ by: sort, order })}>
        {head} {isSorted && (sorted.order === 'asc' ? '↑' : '↓')}
      </UnstyledButton>
    </th>
  )
}
