import { Button, FileInput, Group, Stack, Text, Textarea } from '@mantine/core'
import { useState } from 'react'
import { number } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { rowsOfTable } from './csv.ts'
import type { Row, RowSchema } from './rows.ts'

interface FromTableProps {
  of: RowSchema
  onRows: (rows: Row[]) => void
}

/** Fills the rows of the form from a pasted table or a selected file. */
export function FromTable({ of, onRows }: FromTableProps) {
  const [text, setText] = useState('')
  const [problem, setProblem] = useState<string>()

  function fill(table: string) {
    try {
      onRows(rowsOfTable(table, of))
      setProblem(undefined)
    } catch (err) {
      setProblem((err as Error).message)
    }
  }
  return (
    <details>
      <summary>Fill the rows from a table</summary>
      <Stack gap="sm" mt="xs">
        <FileInput
          label="CSV file"
          description="The first line must name the columns"
          placeholder="Choose a file"
          accept=".csv,.tsv,text/csv"
          onChange={(file) => void file?.text().then(fill)}
          maw={320}
        />
        <Textarea
          label="Or paste the table"
          description="Including its header line, as CSV or from a spreadsheet"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          error={problem}
          rows={4}
        />
        <Group>
          <Button variant="default" onClick={() => fill(text)}>
            Fill the rows
          </Button>
        </Group>
      </Stack>
    </details>
  )
}

/** Rows beyond this number get no form fields, because thousands of fields would freeze the page. */
export const MAX_FIELDS = 20
const SHOWN = 5

/** Shows the first rows of many, instead of form fields. */
export function ManyRows({ of, rows, onRows }: FromTableProps & { rows: readonly Row[] }) {
  return (
    <div>
      <Group justify="space-between">
        <Text fw={600}>{number(rows.length)} rows are filled in. These are the first.</Text>
        <Button size="compact-sm" variant="default" onClick={() => onRows(rows.slice(0, 1))}>
          Keep the first only
        </Button>
      </Group>
      <RowTable caption="rows" of={of} rows={rows.slice(0, SHOWN)} />
    </div>
  )
}

interface RowTableProps {
  caption: string
  of: RowSchema
  rows: readonly Row[]
  /** The text about each row, shown before its cells. */
  first?: { head: string; cellOf: (at: number) => string }
}

/** Rows of a model as a table. */
export function RowTable({ caption, of, rows, first }: RowTableProps) {
  const numbered = rows.map((row, at) => ({ row, at }))
  return (
    <DataTable
      caption={caption}
      rows={numbered}
      idOf={({ at }) => String(at)}
      empty="There are no rows."
      columns={[
        { head: 'Row', cell: ({ at }) => at + 1 },
        ...(first ? [{ head: first.head, cell: ({ at }: { at: number }) => <b>{first.cellOf(at)}</b> }] : []),
        ...of.columns.map(([name]) => ({
          head: name,
          cell: ({ row }: { row: Row }) => String(row[name] ?? '–'),
        })),
      ]}
    />
  )
}
