import { SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { ADMIN } from '../api.ts'
import { shortId } from '../format.ts'
import { waitingFor } from '../states.ts'
import type { WorkItem } from '../types.ts'
import { usePages } from '../use-api.ts'
import { DataTable } from './data-table.tsx'
import { Time } from './facts.tsx'
import { PageLink } from './link.tsx'
import { Panel } from './page.tsx'
import { TemporalLink } from './temporal-link.tsx'

const KINDS = [
  { value: 'run', label: 'Runs' },
  { value: 'merge', label: 'Merges' },
  { value: 'task', label: 'Tasks' },
  { value: 'cohort', label: 'Cohorts' },
]

const STATE_OF = { run: 'run', merge: 'run', task: 'task', cohort: 'cohort' } as const

/** The open work of all accounts, with each item's workflow. */
export function OpenWorkItems() {
  const [kind, setKind] = useState('run')
  const work = usePages<'work', WorkItem>(`${ADMIN}/work`, 'work', { kind })
  return (
    <Panel
      title="Unfinished work"
      actions={<SegmentedControl aria-label="Kind" data={KINDS} value={kind} onChange={setKind} size="xs" />}
    >
      <DataTable
        caption="unfinished work"
        rows={work.rows}
        error={work.error}
        more={work}
        idOf={({ id }) => id}
        empty="Nothing of this kind is open."
        columns={[
          { head: 'Id', cell: ({ id }) => <span className="mono">{shortId(id)}</span> },
          { head: 'What', cell: ({ subject }) => subject ?? '–' },
          {
            head: 'State',
            state: ({ kind: each, status, waiting_reason }) => ({
              as: STATE_OF[each],
              of: status,
              words: waitingFor(waiting_reason),
            }),
          },
          {
            head: 'Account',
            cell: ({ account_id }) => <span className="mono">{shortId(account_id)}</span>,
          },
          {
            head: 'Node',
            cell: ({ node_id }) =>
              node_id ? (
                <PageLink to="/nodes/$nodeId" params={{ nodeId: node_id }}>
                  {shortId(node_id)}
                </PageLink>
              ) : (
                '–'
              ),
          },
          { head: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
          {
            head: 'Workflow',
            cell: ({ workflow_id, temporal_url }) => <TemporalLink id={workflow_id} url={temporal_url} />,
          },
        ]}
      />
    </Panel>
  )
}
