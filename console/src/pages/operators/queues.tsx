import { Alert } from '@mantine/core'
import { ADMIN } from '../../api.ts'
import { number, seconds } from '../../format.ts'
import { DataTable } from '../../parts/data-table.tsx'
import { OpenWorkItems } from '../../parts/open-work.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Loading, Page, Panel } from '../../parts/page.tsx'
import type { Queues as QueuesView } from '../../types.ts'
import { useApi } from '../../use-api.ts'

export const Queues = () => (
  <Page title="Queues" lead="Unfinished work, and the Temporal task queues that it passes through.">
    <OperatorGate>
      <QueuePanels />
    </OperatorGate>
  </Page>
)

function QueuePanels() {
  const { data, error } = useApi<QueuesView>(`${ADMIN}/queues`)
  if (!data) return <Loading error={error} what="queues" />
  return (
    <>
      <Panel title="Open work">
        <DataTable
          caption="open work"
          rows={data.work}
          idOf={({ kind }) => kind}
          empty="Nothing is open."
          columns={[
            { head: 'Kind', cell: ({ kind }) => kind.replaceAll('_', ' ') },
            { head: 'Waiting', align: 'right', cell: ({ waiting }) => number(waiting) },
            { head: 'Running', align: 'right', cell: ({ running }) => number(running) },
            {
              head: 'Longest wait',
              align: 'right',
              cell: ({ oldest_waiting_s }) => (oldest_waiting_s === null ? '–' : seconds(oldest_waiting_s)),
            },
          ]}
        />
      </Panel>
      <OpenWorkItems />
      <Panel title="Task queues">
        {data.temporal === 'unreachable' && (
          <Alert mb="sm" role="note" variant="outline" title="Temporal does not respond">
            Its queues are unknown. Work is accepted, and starts when Temporal is back.
          </Alert>
        )}
        <DataTable
          caption="task queues"
          rows={data.queues}
          idOf={({ name, kind }) => `${name} ${kind}`}
          empty="No queue has work or a worker."
          columns={[
            { head: 'Queue', cell: ({ name }) => <span className="mono">{name}</span> },
            { head: 'Kind', cell: ({ kind }) => kind },
            { head: 'Backlog', align: 'right', cell: ({ backlog }) => number(backlog) },
            { head: 'Age', align: 'right', cell: ({ backlog_age_s }) => seconds(backlog_age_s) },
            { head: 'Added per second', align: 'right', cell: ({ added_per_s }) => added_per_s.toFixed(1) },
            {
              head: 'Dispatched per second',
              align: 'right',
              cell: ({ dispatched_per_s }) => dispatched_per_s.toFixed(1),
            },
            {
              head: 'Workers',
              align: 'right',
              cell: ({ pollers, backlog }) =>
                pollers === 0 && backlog > 0 ? '0: no worker polls it' : pollers,
            },
          ]}
        />
      </Panel>
    </>
  )
}
