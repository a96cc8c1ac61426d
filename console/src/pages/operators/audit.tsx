import { Alert, Button, Group, Tabs, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { ADMIN } from '../../api.ts'
import { number } from '../../format.ts'
import { DataTable } from '../../parts/data-table.tsx'
import { Facts, Time } from '../../parts/facts.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Failure, Page, Panel } from '../../parts/page.tsx'
import { State } from '../../parts/state.tsx'
import type { AuditEntry, TaskAudit } from '../../types.ts'
import { useApi, usePages } from '../../use-api.ts'

export const Audit = () => (
  <Page title="Audit" lead="Who changed what, and what a task has cost.">
    <OperatorGate>
      <Tabs defaultValue="changes" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="changes">Changes</Tabs.Tab>
          <Tabs.Tab value="task">Ledger of a task</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="changes">
          <Changes />
        </Tabs.Panel>
        <Tabs.Panel value="task">
          <TaskLedger />
        </Tabs.Panel>
      </Tabs>
    </OperatorGate>
  </Page>
)

const FILTERS = { actor: 'By', action: 'Operation', subject_id: 'Id of what changed' } as const

/** Changes by operators, and by accounts to their keys, newest first. */
function Changes() {
  const [filter, setFilter] = useState<Partial<Record<keyof typeof FILTERS, string>>>({})
  const entries = usePages<'entries', AuditEntry>(`${ADMIN}/audit-log`, 'entries', filter)
  return (
    <>
      <Group align="flex-end" mb="md">
        {Object.entries(FILTERS).map(([name, label]) => (
          <TextInput
            key={name}
            label={label}
            // Searching on every keystroke would send a request for each letter.
            onBlur={({ currentTarget: { value } }) => setFilter((now) => ({ ...now, [name]: value.trim() }))}
            onKeyDown={({ key, currentTarget }) => key === 'Enter' && currentTarget.blur()}
            w={220}
          />
        ))}
      </Group>
      <DataTable
        caption="changes"
        rows={entries.rows}
        error={entries.error}
        more={entries}
        idOf={({ entry_id }) => entry_id}
        empty="No recorded changes match."
        columns={[
          { head: 'When', cell: ({ at }) => <Time at={at} /> },
          { head: 'By', cell: ({ actor }) => <span className="mono">{actor}</span> },
          { head: 'Operation', cell: ({ action }) => action },
          {
            head: 'What',
            cell: ({ subject }) => (
              <>
                {subject.kind} <span className="mono">{subject.id}</span>
              </>
            ),
          },
          {
            head: 'Change',
            cell: ({ changes }) =>
              Object.entries(changes).map(([name, { from, to }]) => (
                <div key={name}>
                  {name.replaceAll('_', ' ')}: {shown(from)} → {shown(to)}
                </div>
              )),
          },
        ]}
      />
    </>
  )
}

const shown = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value)

/** The ledger of one task. */
function TaskLedger() {
  const [id, setId] = useState('')
  const [taskId, setTaskId] = useState<string>()
  const { data, error } = useApi<TaskAudit>(taskId ? `${ADMIN}/audit/task/${taskId}` : null)
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setTaskId(id.trim() || undefined)
        }}
      >
        <Group align="flex-end">
          <TextInput
            label="Id of the task"
            value={id}
            onChange={(event) => setId(event.currentTarget.value)}
            w={340}
          />
          <Button type="submit">Show</Button>
        </Group>
      </form>
      {error && <Failure error={error} what="audit" />}
      {data && (
        <Panel title="Ledger of the task">
          <Facts
            of={{
              State: <State as="task" of={data.status} />,
              Account: <span className="mono">{data.account_id}</span>,
              Endpoint: <span className="mono">{data.endpoint_id}</span>,
              Price: `${number(data.price_micro)} micro-credits`,
            }}
          />
          <DataTable
            caption="entries"
            rows={data.entries}
            idOf={({ entry_id }) => entry_id}
            empty={<Alert variant="outline">This task has no entries.</Alert>}
            columns={[
              { head: 'Kind', cell: ({ kind }) => kind },
              { head: 'Purse', cell: ({ purse }) => <span className="mono">{purse}</span> },
              {
                head: 'Micro-credits',
                align: 'right',
                cell: ({ amount_micro }) => <Text span>{number(amount_micro)}</Text>,
              },
              { head: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
            ]}
          />
        </Panel>
      )}
    </>
  )
}
