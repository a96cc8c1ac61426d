import { shortId } from '../../format.ts'
import type { Run } from '../../types.ts'
import { type Column, DataTable } from '../data-table.tsx'
import { Lasted, Time } from '../facts.tsx'
import { PageLink } from '../link.tsx'
import { runStateOf } from '../state.tsx'

type TableProps = Parameters<typeof DataTable<Run>>[0]

interface RunTableProps extends Pick<TableProps, 'rows' | 'error' | 'more' | 'sorted' | 'onSort'> {
  chosen?: ReadonlySet<string>
  onChoose?: (id: string, isChosen: boolean) => void
}

const COLUMNS: Column<Run>[] = [
  {
    head: 'Name',
    sort: 'name',
    cell: (run) => (
      <PageLink to="/runs/$runId" params={{ runId: run.job_id }}>
        {run.job_name || shortId(run.job_id)}
      </PageLink>
    ),
  },
  {
    head: 'State',
    state: runStateOf,
  },
  { head: 'Kind', cell: (run) => run.job_type },
  { head: 'Model', cell: (run) => <span className="mono">{run.model_config_id}</span> },
  { head: 'Took', cell: (run) => <Lasted from={run.started_at} to={run.completed_at} /> },
  { head: 'Created', sort: 'created_at', cell: (run) => <Time at={run.created_at} /> },
]

export function RunTable({ chosen, onChoose, ...rest }: RunTableProps) {
  const choice: Column<Run> = {
    head: 'Compare',
    cell: (run) => (
      <input
        type="checkbox"
        aria-label={`Compare ${run.job_name}`}
        checked={chosen?.has(run.job_id) ?? false}
        onChange={(event) => onChoose?.(run.job_id, event.currentTarget.checked)}
      />
    ),
  }
  return (
    <DataTable
      caption="runs"
      columns={onChoose ? [choice, ...COLUMNS] : COLUMNS}
      idOf={(run) => run.job_id}
      empty={
        <>
          No runs yet. The page of a{' '}
          <PageLink to="/datasets" className="link in-text">
            dataset
          </PageLink>{' '}
          starts one.
        </>
      }
      {...rest}
    />
  )
}
