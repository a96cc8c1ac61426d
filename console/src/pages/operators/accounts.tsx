import { TextInput } from '@mantine/core'
import { useState } from 'react'
import { ADMIN } from '../../api.ts'
import { bytes, number } from '../../format.ts'
import { DataTable } from '../../parts/data-table.tsx'
import { Time } from '../../parts/facts.tsx'
import { OperatorGate } from '../../parts/operator-gate.tsx'
import { Page } from '../../parts/page.tsx'
import type { Account } from '../../types.ts'
import { usePages } from '../../use-api.ts'

export const Accounts = () => (
  <Page title="Accounts">
    <OperatorGate>
      <AccountList />
    </OperatorGate>
  </Page>
)

function AccountList() {
  const [name, setName] = useState('')
  const accounts = usePages<'accounts', Account>(`${ADMIN}/accounts`, 'accounts', { name })
  return (
    <>
      <TextInput
        label="Name"
        description="Accounts whose name contains this"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maw={320}
      />
      <DataTable
        caption="accounts"
        rows={accounts.rows}
        error={accounts.error}
        more={accounts}
        idOf={({ account_id }) => account_id}
        empty="No accounts."
        columns={[
          {
            head: 'Name',
            cell: ({ name: own, account_id }) => (
              <>
                {own}
                <div className="mono">{account_id}</div>
              </>
            ),
          },
          {
            head: 'Open runs',
            align: 'right',
            cell: ({ open_runs, training_quota }) => `${number(open_runs)} of ${number(training_quota)}`,
          },
          {
            head: 'Open tasks',
            align: 'right',
            cell: ({ open_tasks, task_quota }) => `${number(open_tasks)} of ${number(task_quota)}`,
          },
          {
            head: 'Storage quota',
            align: 'right',
            cell: ({ storage_quota_bytes: quota }) =>
              quota === 0 ? 'no limit' : quota ? bytes(quota) : 'default',
          },
          { head: 'Requests', align: 'right', cell: ({ requests }) => number(requests) },
          { head: 'Failed', align: 'right', cell: ({ failed }) => number(failed) },
          { head: 'Keys', align: 'right', cell: ({ keys }) => number(keys) },
          { head: 'Nodes', align: 'right', cell: ({ nodes }) => number(nodes) },
          { head: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
        ]}
      />
    </>
  )
}
