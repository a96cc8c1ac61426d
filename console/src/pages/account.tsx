import { Alert, Select } from '@mantine/core'
import { useState } from 'react'
import { HearthError, BUILDER } from '../api.ts'
import { bytes, number, shortId } from '../format.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Facts, Time } from '../parts/facts.tsx'
import { Keys } from '../parts/keys.tsx'
import { PageLink } from '../parts/link.tsx'
import { Loading, Page, Panel } from '../parts/page.tsx'
import type { LedgerEntry, Me, UsageRow } from '../types.ts'
import { useApi, usePages } from '../use-api.ts'

export function AccountPage() {
  const me = useApi<Me>(`${BUILDER}/me`)
  return (
    <Page title="Keys and usage">
      <Panel title="This key and its account">
        {me.data ? (
          <Facts
            of={{
              Account: me.data.account.name,
              'Account id': <span className="mono">{me.data.account.id}</span>,
              Key: `${me.data.key.name}, ending in ${me.data.key.hint}`,
              Role: me.data.role,
              Balance: `${me.data.balance_credits} credits`,
              'Runs at once': number(me.data.quotas.training),
              'Tasks waiting at once': number(me.data.quotas.tasks),
              Storage: me.data.storage ? storageText(me.data.storage) : 'not reported by this gateway',
              Features: me.data.features.join(', ') || 'no additional features',
            }}
          />
        ) : (
          <Missing error={me.error} what="account" />
        )}
      </Panel>
      <Usage />
      <Ledger />
      <Keys />
    </Page>
  )
}

function storageText({ limit_bytes, stored_bytes, under_way_bytes }: NonNullable<Me['storage']>): string {
  const limit = limit_bytes === null ? 'without a limit' : `of ${bytes(limit_bytes)}`
  return `${bytes(stored_bytes)} stored and ${bytes(under_way_bytes)} in progress, ${limit}`
}

/** Older gateways lack some of these routes. */
function Missing({ error, what }: { error: Error | null; what: string }) {
  if (error instanceof HearthError && error.status === 404)
    return (
      <Alert role="note" variant="outline" color="gray" title={`No ${what}`}>
        This gateway does not report it.
      </Alert>
    )
  return <Loading error={error} what={what} />
}

function Usage() {
  const [group, setGroup] = useState<string | null>('day')
  const usage = useApi<{ rows: UsageRow[] }>(`${BUILDER}/usage?group=${group}`)
  return (
    <Panel
      title="Usage"
      actions={
        <Select
          aria-label="Usage by"
          data={['day', 'endpoint', 'key', 'model'].map((value) => ({ value, label: `By ${value}` }))}
          value={group}
          onChange={setGroup}
          allowDeselect={false}
          w={150}
        />
      }
    >
      {usage.data ? (
        <DataTable
          caption="usage"
          rows={usage.data.rows}
          idOf={(row) => row.group ?? 'unknown'}
          empty="No requests in this period."
          columns={[
            { head: 'Of', cell: (row) => row.name ?? row.group ?? 'unknown' },
            { head: 'Requests', align: 'right', cell: ({ requests }) => number(requests) },
            { head: 'Failed', align: 'right', cell: ({ failed }) => number(failed) },
            { head: 'Tokens in', align: 'right', cell: ({ tokens_in }) => number(tokens_in) },
            { head: 'Tokens out', align: 'right', cell: ({ tokens_out }) => number(tokens_out) },
            { head: 'Credits', align: 'right', cell: ({ cost_credits }) => cost_credits },
          ]}
        />
      ) : (
        <Missing error={usage.error} what="usage" />
      )}
    </Panel>
  )
}

function Ledger() {
  const ledger = usePages<'entries', LedgerEntry>(`${BUILDER}/ledger`, 'entries')
  return (
    <Panel title="Ledger">
      {ledger.rows ? (
        <DataTable
          caption="ledger"
          rows={ledger.rows}
          more={ledger}
          idOf={({ task_id, kind, amount_micro, created_at }) =>
            `${task_id} ${kind} ${amount_micro} ${created_at}`
          }
          empty="No entries yet."
          columns={[
            {
              head: 'Task or reason',
              cell: ({ task_id, reason }) =>
                task_id === null ? (
                  reason
                ) : (
                  <PageLink to="/tasks/$taskId" params={{ taskId: task_id }}>
                    {shortId(task_id)}
                  </PageLink>
                ),
            },
            { head: 'Kind', cell: ({ kind }) => kind },
            { head: 'Credits', align: 'right', cell: ({ amount_credits }) => amount_credits },
            { head: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
          ]}
        />
      ) : (
        <Missing error={ledger.error} what="ledger" />
      )}
    </Panel>
  )
}
